"""Random numbers as a hash of what they are for, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

WORD = np.uint64
GOLDEN = WORD(0x9E3779B97F4A7C15)


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function on its first call and keep the result on disk where a cache folder is writable."""
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:
        return njit(**options)(function)


def _mix(word: Any) -> Any:
    """SplitMix64's finaliser: a bijection of 64-bit words that leaves no pattern."""
    word = (word ^ (word >> WORD(30))) * WORD(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> WORD(27))) * WORD(0x94D049BB133111EB)
    return word ^ (word >> WORD(31))


_mix = _compiled(_mix, forceinline=True)  # part of its caller, so that a cached copy cannot be optimised differently


@_compiled
def uniform(key: Any, ids: Any, counters: Any, k: int) -> Any:
    """Numbers [m,k] in [0,1) that depend on the key and on (id, counter) [m] alone."""
    numbers = np.empty((len(ids), k))
    for row in range(len(ids)):
        state = _mix(key + _mix(WORD(ids[row]) + GOLDEN))
        state = _mix(state + _mix(WORD(counters[row]) * GOLDEN))
        for i in range(k):
            state += GOLDEN
            numbers[row, i] = (_mix(state) >> WORD(11)) * 2.0**-53
    return numbers
