"""Files that are complete or not there: written under a random name beside their place, then put there."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

UNFINISHED = ".partial"  # the end of such a name


@contextmanager
def replacing(path: Path, durable: bool = False) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of `path` once it is written; if that fails, nothing has changed.

    A link at `path` is replaced, not followed. What was written can be read back. If `durable`, the file and its name
    survive a power cut from then on.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}{UNFINISHED}")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        with open(os.open(beside, flags, 0o666), "w+b") as file:
            yield file
            if durable:
                sync(file)
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def sync(file: BinaryIO) -> None:
    """Bring what was written to a file onto the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder onto the disk, where the system lets folders be opened."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def clear_unfinished(folder: Path) -> None:
    """Remove what writers that were killed left in a folder."""
    for file in folder.glob(f".*{UNFINISHED}"):
        file.unlink(missing_ok=True)
