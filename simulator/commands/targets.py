"""Files that a command writes where the user says: nothing that is not its own is overwritten."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from fedmule.simulator.errors import UserError

HEAD_BYTES = 4096

# How files of each kind are recognised, by their suffix: a picture is replaced by a picture, a page by a page of ours.
OURS: dict[str, Callable[[bytes], bool]] = {
    ".html": lambda head: head.startswith(b"<!doctype html>") and b"Fedmule" in head,
    ".png": lambda head: head.startswith(b"\x89PNG"),
    ".gif": lambda head: head.startswith(b"GIF8"),
    ".mp4": lambda head: head[4:8] == b"ftyp",
}


def claim(option: str, name: str | Path, suffix: str, must_end_so: bool = True) -> Path:
    """The file of this option, in a folder that exists now; UserError if nothing can or may be written there."""
    file = Path(name)
    if file.is_dir():
        raise UserError(f"{option} {file}: is a folder; name a file")
    if must_end_so and file.suffix.lower() != suffix:
        raise UserError(f"{option} {file}: must end in {suffix}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists():
            with file.open("rb") as present:
                head = present.read(HEAD_BYTES)
            if head and not OURS[suffix](head):
                raise UserError(f"{option} {file}: exists already and is something else; choose another file")
        with tempfile.TemporaryFile(dir=file.parent):
            pass
    except OSError as error:
        raise UserError(f"{option} {file}: cannot be written: {error.strerror}") from None
    return file
