"""Open trace files, compressed or not, and report errors in them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

from fedmule.mobility.traces.trace import TraceError

PACKED: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
UNREADABLE = (OSError, EOFError, lzma.LZMAError, zlib.error)  # raised by a file that is damaged, or not there
CUT_OFF = {
    expat.errors.codes[error]
    for error in (
        expat.errors.XML_ERROR_NO_ELEMENTS,
        expat.errors.XML_ERROR_UNCLOSED_TOKEN,
        expat.errors.XML_ERROR_PARTIAL_CHAR,
    )
}

TRIED = 1 << 25  # bytes that are unpacked to see how far a file unpacks
MOST_TIMES = 200  # its size: no trace or map unpacks so far


def open_binary(path: Path, mode: str = "rb") -> IO[bytes]:
    """Open a file, decompressing or compressing it according to its suffix."""
    if mode == "rb" and path.suffix in PACKED:
        stat = path.stat()
        _check_unpacked(path, stat.st_size, stat.st_mtime_ns)
    file: IO[bytes] = PACKED.get(path.suffix, open)(path, mode)
    return file


@lru_cache(maxsize=64)
def _check_unpacked(path: Path, size: int, mtime_ns: int) -> None:
    """Raise OSError if a file unpacks to far more than its size, as archives do that are made to fill a memory."""
    with path.open("rb") as packed, PACKED[path.suffix](packed) as file:
        unpacked = 0
        while unpacked < TRIED and (part := file.read(1 << 20)):
            unpacked += len(part)
        if unpacked >= TRIED and unpacked > MOST_TIMES * packed.tell():
            raise OSError(f"it unpacks to more than {MOST_TIMES} times its size; unpack it yourself if that is right")


@contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to write, compressed according to its suffix; it replaces the old one only when complete."""
    is_device = path.is_symlink() or (
        path.exists() and not path.is_file()
    )  # such as /dev/stdout, which cannot be replaced
    target = path if is_device else path.with_name(f".{path.name}.{os.getpid()}{path.suffix}")
    try:
        with open_binary(target, "wb") as file:
            yield file
        if not is_device:
            os.replace(target, path)
    except OSError as error:
        raise TraceError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        if not is_device:
            target.unlink(missing_ok=True)


def open_text(path: Path) -> IO[str]:
    """Open a text file for reading; bytes that are not UTF-8 are replaced."""
    return io.TextIOWrapper(open_binary(path), encoding="utf-8-sig", errors="replace", newline="")


def plain_suffix(path: Path) -> str:
    """Suffix in lower case, without that of the compression."""
    return (Path(path.stem) if path.suffix in PACKED else path).suffix.lower()


def number(path: Path, line: int, name: str, text: str) -> float:
    """Parse a finite number from a file."""
    try:
        value = float(text)
    except ValueError:
        raise wrong(path, line, f"{name} must be a number", text) from None
    if not math.isfinite(value):
        raise wrong(path, line, f"{name} must be a finite number", text)
    return value


def xml_error(path: Path, error: expat.ExpatError) -> TraceError:
    """Error for a file that is not XML, or is truncated."""
    what = "is truncated or empty" if error.code in CUT_OFF else f"is not XML: {expat.ErrorString(error.code)}"
    return TraceError(f"{path}, line {error.lineno}: {what}")


def one_line(given: object) -> str:
    """Text without line breaks, which messages of libraries and fields of files may contain."""
    return " ".join(str(given).split())


def wrong(path: Path, line: int, message: str, given: object) -> TraceError:
    """Error in a line of a file."""
    text = one_line(",".join(map(str, given)) if isinstance(given, list) else given)
    short = text if len(text) <= 60 else text[:57] + "…"
    return TraceError(f"{path}, line {line}: {message}: {short}")
