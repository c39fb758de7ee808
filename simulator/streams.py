"""Named random streams from one seed: changing one part does not reshuffle another."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Streams:
    """The random streams of one run, by name."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def generator(self, name: str) -> np.random.Generator:
        """Return an ordinary generator, for draws whose order is fixed."""
        return np.random.default_rng(self._key(name))

    def draw(self, name: str) -> Callable[[IntArray, IntArray, int], FloatArray]:
        """Return a function of ids [m], counters [m] and k to uniform numbers [m,k], a hash of (id, counter) alone."""
        key = np.uint64(self._key(name) & 0xFFFFFFFFFFFFFFFF)

        def draw(ids: IntArray, counters: IntArray, k: int) -> FloatArray:
            from fedmule.simulator.hashing import uniform  # compiled, so only where it is needed

            found: FloatArray = uniform(
                key, np.ascontiguousarray(ids, np.int64), np.ascontiguousarray(counters, np.int64), k
            )
            return found

        return draw

    def _key(self, name: str) -> int:
        return int.from_bytes(hashlib.sha256(f"{self._seed}/{name}".encode()).digest()[:16], "little")
