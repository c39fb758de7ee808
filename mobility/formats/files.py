"""Opening trace files, compressed or not, and saying what is wrong in them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

from mobility.traces import TraceError

PACKED: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
CUT_OFF = {
    expat.errors.codes[error]
    for error in (
        expat.errors.XML_ERROR_NO_ELEMENTS,
        expat.errors.XML_ERROR_UNCLOSED_TOKEN,
        expat.errors.XML_ERROR_PARTIAL_CHAR,
    )
}


def open_binary(path: Path, mode: str = "rb") -> IO[bytes]:
    try:
        file: IO[bytes] = PACKED.get(path.suffix, open)(path, mode)
        return file
    except OSError as error:
        what = "read" if mode == "rb" else "written"
        raise TraceError(f"{path}: cannot be {what}: {error.strerror or error}") from None


def open_text(path: Path) -> IO[str]:
    """For reading; letters that are no UTF-8 do not stop it."""
    import io

    return io.TextIOWrapper(open_binary(path), encoding="utf-8-sig", errors="replace", newline="")


def plain_suffix(path: Path) -> str:
    """The suffix in small letters, without that of the compression."""
    return (Path(path.stem) if path.suffix in PACKED else path).suffix.lower()


def number(path: Path, line: int, name: str, text: str) -> float:
    """A finite number from a file."""
    try:
        value = float(text)
    except ValueError:
        raise wrong(path, line, f"{name} must be a number", text) from None
    if not math.isfinite(value):
        raise wrong(path, line, f"{name} must be a finite number", text)
    return value


def xml_error(path: Path, error: expat.ExpatError) -> TraceError:
    """What is wrong in a file that is no XML, or not all of one."""
    what = "breaks off, or is empty" if error.code in CUT_OFF else f"is not XML: {expat.ErrorString(error.code)}"
    return TraceError(f"{path}, line {error.lineno}: {what}")


def wrong(path: Path, line: int, message: str, given: object) -> TraceError:
    """What is wrong in which line of a file."""
    text = ",".join(map(str, given)) if isinstance(given, list) else str(given).strip()
    short = text if len(text) <= 60 else text[:57] + "…"
    return TraceError(f"{path}, line {line}: {message}: {short}")
