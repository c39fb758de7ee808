"""Read pickled arrays without running code."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from fedmule.learning.errors import DataError


class _ArraysOnly(pickle.Unpickler):
    """Unpickler for plain values and numpy arrays that refuses anything that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a class or function that arrays need; refuse all others."""
        if module.startswith("numpy.") and name == "_reconstruct":
            return np._core.multiarray._reconstruct  # type: ignore[attr-defined]
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")):
            return super().find_class(module, name)
        raise DataError(f"refused: unpickling would run {module}.{name}")


def unpickle_arrays(content: bytes, encoding: str = "bytes") -> Any:
    """Return the plain values and arrays in a pickle; raise a DataError if it contains anything else."""
    return _ArraysOnly(io.BytesIO(content), encoding=encoding).load()
