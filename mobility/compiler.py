"""Compilation of the innermost loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any], **more: Any) -> Any:
    """Compile a function on its first call, and cache the result on disk where a cache folder is writable."""
    try:
        return njit(cache=True, error_model="numpy", **more)(function)
    except RuntimeError:  # neither this folder nor the user's cache is writable
        return njit(error_model="numpy", **more)(function)


def inner(function: Callable[..., Any]) -> Any:
    """Compile a function that only compiled ones call: without what Python would need to call it, so in less time."""
    return compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)
