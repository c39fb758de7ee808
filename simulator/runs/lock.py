"""One writer for each folder: a lock that others see, and that ends with the process that holds it."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from types import TracebackType

from fedmule.simulator.errors import UserError

NAME = ".lock"


class FolderLock:
    """Keeps other processes from writing to a folder until it is released; where the system has no such locks, nobody.

    Raises a UserError that says who holds it. The lock of a process that died is free.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._handle = self._take()

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Let others write to the folder."""
        if self._handle is not None:
            self._path.unlink(missing_ok=True)  # while it is held: who opened it meanwhile sees that it is gone
            os.close(self._handle)
            self._handle = None

    def _take(self) -> int | None:
        try:
            import fcntl
        except ImportError:
            return None
        while True:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                holder = os.read(handle, 200).decode(errors="replace")
                os.close(handle)
                raise UserError(
                    f"{self._path.parent}: is being written by another process{holder and f' ({holder})'}"
                ) from None
            if self._is_there(handle):
                os.ftruncate(handle, 0)
                os.write(handle, f"process {os.getpid()} on {platform.node()}".encode())
                return handle
            os.close(handle)  # released, and removed, between opening and locking it

    def _is_there(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), os.stat(self._path))
        except FileNotFoundError:
            return False
