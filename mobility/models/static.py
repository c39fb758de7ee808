"""Clients that stay where they are."""

from __future__ import annotations

import numpy as np

from fedmule.mobility.models.movement import Draw, FloatArray, Movement, random_places
from fedmule.mobility.terrain import Terrain


class Static(Movement):
    """Nobody moves; places are given, or random on open ground."""

    def __init__(self, terrain: Terrain, count: int, draw: Draw, places: tuple[tuple[float, float], ...] = ()) -> None:
        if places:
            self._places = np.array(places, dtype=float)
        else:
            self._places = random_places(terrain, draw, np.arange(count), np.zeros(count, dtype=np.int64))

    def start(self) -> FloatArray:
        return self._places
