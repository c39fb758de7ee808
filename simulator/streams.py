"""Named randomness: one seed, independent streams, so that changing one part does not reshuffle another."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Words = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Streams:
    """The random streams of one run, by name."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def generator(self, name: str) -> np.random.Generator:
        """An ordinary generator, for draws whose order is fixed."""
        return np.random.default_rng(self._key(name))

    def draw(self, name: str) -> Callable[[IntArray, IntArray, int], FloatArray]:
        """draw(ids [m], counters [m], k): uniform numbers [m,k] in [0,1) that depend on (id, counter) alone."""
        key = np.array([self._key(name) & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64)

        def draw(ids: IntArray, counters: IntArray, k: int) -> FloatArray:
            state = _mix(key + _mix(ids.astype(np.uint64) + _GOLDEN))
            state = _mix(state + _mix(counters.astype(np.uint64) * _GOLDEN))
            words = _mix(state[:, None] + np.arange(1, k + 1, dtype=np.uint64) * _GOLDEN)
            return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53

        return draw

    def _key(self, name: str) -> int:
        return int.from_bytes(hashlib.sha256(f"{self._seed}/{name}".encode()).digest()[:16], "little")


def _mix(words: Words) -> Words:
    """SplitMix64's finaliser: a bijection of 64-bit words that leaves no pattern."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
