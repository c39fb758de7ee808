"""Pictures and animations of a run: the options --png, --gif and --mp4 of fedmule replay."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedmule.simulator.commands.targets import claim
from fedmule.simulator.errors import UserError

if TYPE_CHECKING:
    from fedmule.analysis import Run

SECONDS, MOST_SECONDS = 12.0, 60.0  # of an animation; all its frames are in memory until it is written


def add(replay: Any) -> None:
    """Add the options."""
    from fedmule.simulator.commands import arguments

    drawn = replay.add_argument_group("pictures instead of a page")
    drawn.add_argument("--png", metavar="FILE", help="write a picture of one moment of a run")
    drawn.add_argument(
        "--at", type=arguments.clock, metavar="TIME",
        help="the moment, in simulated time: 1200 or 0:20:00 (default: the end)",
    )  # fmt: skip
    drawn.add_argument("--gif", metavar="FILE", help="write an animation of a run")
    drawn.add_argument("--mp4", metavar="FILE", help="write a video of a run; needs ffmpeg")
    drawn.add_argument(
        "--seconds", type=arguments.positive, metavar="N",
        help=f"how long the animation or video takes (default {SECONDS:g}, at most {MOST_SECONDS:g})",
    )  # fmt: skip


def wanted(given: Any) -> bool:
    """Whether any picture is asked for; UserError if an option lacks the one that it belongs to."""
    if given.at is not None and given.png is None:
        raise UserError("--at: is the moment of a picture; give --png FILE too")
    if given.seconds is not None and given.gif is None and given.mp4 is None:
        raise UserError("--seconds: is the length of an animation; give --gif FILE or --mp4 FILE too")
    if given.seconds is not None and given.seconds > MOST_SECONDS:
        raise UserError(f"--seconds {given.seconds:g}: must be at most {MOST_SECONDS:g}")
    return any(name is not None for name in (given.png, given.gif, given.mp4))


def write_pictures(given: Any, run: Run) -> None:
    """Write all pictures of a run that are asked for."""
    from fedmule.analysis.replay import NoTrackError

    ffmpeg = shutil.which("ffmpeg")
    if given.mp4 is not None and ffmpeg is None:
        raise UserError("--mp4: needs ffmpeg, which is not on the PATH; install it, or use --gif")
    files = {suffix: claim(f"--{suffix[1:]}", name, suffix) for suffix, name in _names(given).items()}
    try:
        _draw(given, run, files, ffmpeg)
    except NoTrackError as error:
        raise UserError(str(error)) from None


def _names(given: Any) -> dict[str, str]:
    named = {".png": given.png, ".gif": given.gif, ".mp4": given.mp4}
    return {suffix: name for suffix, name in named.items() if name is not None}


def _draw(given: Any, run: Run, files: dict[str, Path], ffmpeg: str | None) -> None:
    from fedmule.analysis.plots.style import save
    from fedmule.analysis.replay.film import FilmError, write_gif, write_mp4
    from fedmule.analysis.replay.scene import Scene, clock
    from fedmule.simulator.runs.progress import ShareDone

    seconds = given.seconds or SECONDS
    for suffix, file in files.items():
        scene = Scene(run, given.client)
        end_s = scene.moments.end_s
        if suffix == ".png":
            at = end_s if given.at is None else given.at
            if at > end_s:
                raise UserError(f"--at {clock(at)}: the run ends at {clock(end_s)}")
            scene.show(at)
            save(scene.figure, file)
        elif not len(scene.moments.contacts):
            raise UserError(f"{run.folder}: has no contact yet: there is nothing to animate")
        elif suffix == ".gif":
            write_gif(scene, file, seconds, ShareDone("animation"))
        else:
            assert ffmpeg is not None
            try:
                write_mp4(scene, file, seconds, ffmpeg, ShareDone("video"))
            except FilmError as error:
                raise UserError(f"--mp4 {file}: {error}") from None
        sys.stdout.write(f"written to {file}, {file.stat().st_size / 1e6:.2f} MB\n")
