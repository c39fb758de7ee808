"""The local cache of public data sets that do not ship."""

from __future__ import annotations

import os
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmule.learning.errors import DataError
from fedmule.learning.files import replacing

UNREADABLE = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)


def cache_folder() -> Path:
    """Return the folder of cached data sets: FEDMULE_DATA, or the user's cache folder."""
    if chosen := os.environ.get("FEDMULE_DATA"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "fedmule"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/fedmule"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "fedmule"


def cached(name: str) -> Path:
    """Return where a data set is in the cache, once it is there."""
    return cache_folder() / f"{name}.npz"


def store(name: str, **arrays: NDArray[Any]) -> Path:
    """Write the arrays of a data set to the cache in one atomic step; return the file."""
    path = cached(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    return path


def load_arrays(name: str, *wanted: str) -> list[NDArray[Any]]:
    """Load arrays of a cached data set. A damaged file raises one of UNREADABLE, which `damaged` explains."""
    with np.load(cached(name), allow_pickle=False) as arrays:
        return [arrays[array] for array in wanted]


def damaged(name: str, error: Exception) -> DataError:
    """Return the error for a cached data set that cannot be used."""
    return DataError(f"{cached(name)} is damaged ({error}): run `fedmule data {name}` again")
