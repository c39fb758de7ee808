"""A run as an animation, drawn with matplotlib: a GIF file, or an MP4 file by way of ffmpeg."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg

from fedmule.analysis.replay.palette import Palette, Pixels
from fedmule.analysis.replay.scene import DPI, Scene
from fedmule.learning.files import replacing

GIF_FRAME_MS, VIDEO_FRAMES_PER_S = 80, 25  # a GIF counts in hundredths of a second
HOLD_S, FADE_S = 0.5, 0.5  # how long links stay after their contact, and then fade, in seconds of the film
LAST_FRAME_S = 1.5  # how long a GIF shows its last frame
SAMPLES = 12  # frames from which the colours of a GIF are chosen
Report = Callable[[float], None]


class FilmError(RuntimeError):
    """A film cannot be made."""


class Camera:
    """Draws moments of a run as pixels; what does not move is drawn once."""

    def __init__(self, scene: Scene, seconds: float) -> None:
        self.scene, self.end_s = scene, scene.moments.end_s
        self.speed = self.end_s / seconds  # simulated seconds per second of the film
        scene.figure.set_dpi(DPI)
        canvas: Any = FigureCanvasAgg  # its methods have no types
        self._canvas = canvas(scene.figure)
        for part in scene.moving:
            part.set_animated(True)
        self._canvas.draw()
        self._still = self._canvas.copy_from_bbox(scene.figure.bbox)

    def pixels(self, share: float) -> Pixels:
        """The moment after a share of the run; width and height are even, as video wants them."""
        self.scene.show(share * self.end_s, HOLD_S * self.speed, FADE_S * self.speed)
        self._canvas.restore_region(self._still)
        for part in sorted(self.scene.moving, key=lambda part: part.get_zorder()):
            self.scene.figure.draw_artist(part)
        drawn = np.asarray(self._canvas.buffer_rgba())
        height, width = (side - side % 2 for side in drawn.shape[:2])
        return drawn[:height, :width, :3].copy()

    def film(self, frames: int, report: Report) -> Iterator[Pixels]:
        """So many frames from the beginning to the end of the run."""
        for i in range(frames):
            yield self.pixels(i / max(frames - 1, 1))
            report((i + 1) / frames)


def write_gif(scene: Scene, file: Path, seconds: float, report: Report) -> None:
    """Write a GIF file that shows a run in so many seconds, over and over; completely or not at all."""
    camera, frames = Camera(scene, seconds), max(2, round(1000 * seconds / GIF_FRAME_MS))
    palette = Palette(np.concatenate([camera.pixels(i / (SAMPLES - 1)) for i in range(SAMPLES)]))
    images = (palette.image(pixels) for pixels in camera.film(frames, report))
    shown_ms = [GIF_FRAME_MS] * (frames - 1) + [round(1000 * LAST_FRAME_S)]
    with replacing(file) as target:
        first = next(images)
        first.save(target, "GIF", save_all=True, append_images=images, duration=shown_ms, loop=0, optimize=True)


def write_mp4(scene: Scene, file: Path, seconds: float, ffmpeg: str, report: Report) -> None:
    """Write an MP4 file that shows a run in so many seconds; completely or not at all."""
    camera, frames = Camera(scene, seconds), max(2, round(seconds * VIDEO_FRAMES_PER_S))
    height, width = camera.pixels(0.0).shape[:2]
    with tempfile.TemporaryDirectory() as scratch:
        video = Path(scratch) / "video.mp4"
        command = [
            *(ffmpeg, "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"),
            *("-r", str(VIDEO_FRAMES_PER_S), "-i", "-", "-an", "-pix_fmt", "yuv420p", "-movflags", "+faststart"),
            *("-f", "mp4", str(video)),
        ]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as encoder:
            assert encoder.stdin is not None
            assert encoder.stderr is not None
            try:
                for pixels in camera.film(frames, report):
                    encoder.stdin.write(pixels.tobytes())
                encoder.stdin.close()
            except BrokenPipeError:  # it has ended already, and says why
                pass
            said = encoder.stderr.read().decode(errors="replace").strip()
        if encoder.returncode:
            raise FilmError(f"{ffmpeg} failed: {said.splitlines()[-1] if said else encoder.returncode}")
        with replacing(file) as target, video.open("rb") as made:
            shutil.copyfileobj(made, target)
