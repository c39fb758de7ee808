"""Compilation of loops over numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function on its first call, and cache the result on disk for later runs if possible.

    The compiler may choose the order of a sum, but must preserve inf and nan: they reveal a run that diverges.
    """
    return _compiled(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function inline in each of its callers.

    Compiled separately, it could be optimised in two ways, and which one a caller uses would depend on whether it was
    compiled in this run or loaded from the cache: the bits would differ.
    """
    return _compiled(function, forceinline=True)


def _compiled(function: Callable[..., Any], **more: Any) -> Any:
    keys: Any = {"fastmath": {"reassoc", "contract", "arcp", "nsz"}, "error_model": "numpy", **more}
    try:
        return njit(cache=True, **keys)(function)
    except RuntimeError:  # neither this folder nor the user's cache is writable
        return njit(**keys)(function)
