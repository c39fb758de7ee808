"""fedmule replay: show a run, two runs or a study as one HTML page, or a run as a picture or an animation."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from fedmule.simulator.commands import arguments, pictures
from fedmule.simulator.commands.targets import claim

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fedmule.analysis import Run


def add(commands: Any) -> None:
    """Add the command `replay`."""
    replay = commands.add_parser(
        "replay",
        help="watch a run, or two side by side, on their maps; browse a study",
        description="Write one HTML file that replays a run on its map, or two runs side by side on one clock, or "
        "shows a study (also one of fedmule compare or paper) as a table and heat maps. It needs no network and opens "
        "from disk. With --png, --gif or --mp4, write a picture or an animation of a run instead.",
        epilog=arguments.examples(
            "replay runs/warzone",
            "replay runs/slow runs/fast --out speeds.html",
            "replay runs/warzone --png moment.png --at 0:20:00",
            "replay runs/warzone --gif warzone.gif",
            "replay studies/warzone-gain --out gain.html",
        ),
    )
    replay.add_argument(
        "folders",
        nargs="+",
        metavar="RUN|STUDY",
        help="the folder of a run, finished or not, or of a study; or two runs",
    )
    replay.add_argument(
        "--out", metavar="FILE",
        help="where to write the page (default: FOLDER/replay.html; of two runs replay-A-B.html in this folder)",
    )  # fmt: skip
    replay.add_argument(
        "--client", type=int, metavar="N", help="show the numbers of this client, and mark it in pictures"
    )
    replay.add_argument(
        "--runs", action="store_true", help="for a study: also write the page of every run that is done"
    )
    opening = replay.add_mutually_exclusive_group()
    opening.add_argument("--open", action="store_true", help="open the page without asking")
    opening.add_argument("--no-open", action="store_true", help="do not ask whether to open it")
    pictures.add(replay)
    replay.set_defaults(command=_replay)


def _replay(given: Any) -> int:
    from pathlib import Path

    from fedmule.simulator.errors import UserError
    from fedmule.simulator.runs.folder import write_text

    folders = [Path(name) for name in given.folders]
    if len(folders) > 2:
        raise UserError(f"a page shows one run, or two side by side, not {len(folders)}")
    runs = [_is_run(folder) for folder in folders]
    if not all(runs):
        _must_suit_a_study(given, folders[runs.index(False)])
    elif given.runs:
        raise UserError(f"{folders[0]}: is a run; --runs is for studies")
    if pictures.wanted(given):
        if len(folders) > 1:
            raise UserError("--png, --gif and --mp4 draw one run, not two; the page of two runs saves pictures of both")
        pictures.write_pictures(given, *_load(folders, given.client))
        return 0
    file = claim("--out", given.out or _default(folders), ".html", must_end_so=False)
    html = _run_page(folders, given.client) if all(runs) else _study_page(folders[0], file, given.runs)
    write_text(file, html)
    sys.stdout.write(f"written to {file}, {len(html.encode()) / 1e6:.2f} MB\n")
    _offer(file, given.open, given.no_open)
    return 0


def _must_suit_a_study(given: Any, study: Path) -> None:
    """Raise UserError if what is asked for is for runs only."""
    from fedmule.simulator.errors import UserError

    if len(given.folders) > 1:
        raise UserError(f"{study}: is a study; only runs can be shown side by side")
    if pictures.wanted(given) or given.client is not None:
        raise UserError(f"{study}: is a study; --client, --png, --gif and --mp4 are for runs")


def _is_run(folder: Path) -> bool:
    """Whether a folder is a run; otherwise it is a study."""
    from fedmule.simulator.errors import UserError

    is_run = (folder / "manifest.json").is_file()
    if not (is_run or (folder / "index.parquet").is_file()):
        what = "has neither a run's manifest.json nor a study's index.parquet" if folder.is_dir() else "no such folder"
        raise UserError(f"{folder}: {what}")
    return is_run


def _default(folders: Sequence[Path]) -> Path:
    """Where the page goes: into the folder of a run or a study; of two runs here, since it belongs to neither."""
    from pathlib import Path

    if len(folders) == 1:
        return folders[0] / "replay.html"
    return Path("-".join(["replay", *(folder.resolve().name for folder in folders)]) + ".html")


def _load(folders: Sequence[Path], client: int | None) -> list[Run]:
    """The runs in these folders; UserError if none of them has this client."""
    from fedmule.analysis import load_run
    from fedmule.analysis.replay.clients import missing_client
    from fedmule.simulator.errors import UserError

    runs = [load_run(folder) for folder in folders]
    if problem := missing_client(client, runs):
        raise UserError(f"--client: {problem}")
    return runs


def _run_page(folders: Sequence[Path], client: int | None = None) -> str:
    """The page of a run, or of two."""
    from fedmule.analysis.replay import NoTrackError, run_page
    from fedmule.simulator.errors import UserError

    try:
        return run_page(*_load(folders, client), client=client)
    except NoTrackError as error:
        raise UserError(str(error)) from None


def _study_page(folder: Path, file: Path, write_runs: bool) -> str:
    """The page of a study, to be written to `file`, with links to the pages of its runs that exist."""
    import os
    from urllib.parse import quote

    from fedmule.analysis import load_study
    from fedmule.analysis.replay import study_page

    study = load_study(folder)
    if write_runs:
        _write_run_pages([folder / name for name in study.ended["run"]])
    links = {}
    for name in study.index["run"]:
        page = folder / name / "replay.html"
        if page.exists():
            links[name] = quote(os.path.relpath(page, file.parent).replace(os.sep, "/"))
    return study_page(study, links)


def _write_run_pages(folders: Sequence[Path]) -> None:
    """Write the page of each run into its folder, with a warning for those that cannot be replayed."""
    from fedmule.simulator.errors import UserError
    from fedmule.simulator.runs.folder import write_text
    from fedmule.simulator.runs.progress import ShareDone

    report = ShareDone("pages of runs")
    for done, folder in enumerate(folders, start=1):
        try:
            write_text(folder / "replay.html", _run_page([folder]))
        except UserError as error:
            sys.stderr.write(f"warning: {error}\n")
        report(done / len(folders))


def _offer(file: Path, at_once: bool, never: bool) -> None:
    """Open the page in the browser: at once, or if the user at the terminal agrees."""
    if never or not (at_once or (sys.stdin.isatty() and sys.stdout.isatty())):
        return
    if not at_once:
        try:
            answer = input("open it in the browser? [Y/n] ")
        except EOFError:
            return
        if answer.strip().lower() not in ("", "y", "yes"):
            return
    import webbrowser

    if not webbrowser.open(file.resolve().as_uri()):
        sys.stderr.write("warning: no browser was found; open the file yourself\n")
