"""Unplaced: clients whose contacts are known, but not their positions."""

from __future__ import annotations

import numpy as np

from fedmule.mobility.models.movement import NOWHERE_X_M, FloatArray, Movement


class Unplaced(Movement):
    """Clients that are nowhere on the terrain, for good; a contact list says whom they hear."""

    def __init__(self, count: int, classes: list[str] | None = None) -> None:
        self.classes = classes  # [n] to which each belongs, if they are known
        self._positions = np.stack([NOWHERE_X_M * (1 + np.arange(count)), np.zeros(count)], axis=1)

    def start(self) -> FloatArray:
        """Positions [n,2] that nobody reaches."""
        return self._positions
