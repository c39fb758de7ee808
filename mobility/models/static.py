"""Static: clients that never move."""

from __future__ import annotations

import numpy as np

from fedmule.mobility.models.movement import Draw, FloatArray, Movement, random_positions
from fedmule.mobility.terrain import Terrain


class Static(Movement):
    """Clients that stay at given positions, or at random ones on open ground."""

    def __init__(self, terrain: Terrain, count: int, draw: Draw, positions: tuple[tuple[float, float], ...]) -> None:
        if positions:
            self._positions = np.array(positions, dtype=float)
        else:
            self._positions = random_positions(terrain, draw, np.arange(count), np.zeros(count, dtype=np.int64))

    def start(self) -> FloatArray:
        """Positions [n,2], for good."""
        return self._positions
