"""Towns of many houses for tests and benchmarks."""

import numpy as np
import shapely

SHAPES = (
    ((0, 0), (1, 0), (1, 1), (0, 1)),
    ((0, 0), (1, 0), (1, 0.45), (0.5, 0.45), (0.5, 1), (0, 1)),
    ((0, 0), (0.5, -0.2), (1, 0), (1, 1), (0.4, 1.1), (0, 1)),
)


def houses(rows: int, seed: int = 0, pitch_m: float = 20.0, size_m: tuple[float, float] = (8.0, 14.0), turned=True):
    """rows × rows houses of several shapes, moved off their lots by up to a fifth of the pitch, and turned.

    Some of them overlap. `turned=False`: all are along the axes, on a grid of half metres, so that walls are in line.
    """
    rng = np.random.default_rng(seed)
    found = []
    for lot in np.ndindex(rows, rows):
        middle = (np.array(lot) + 0.5 + rng.uniform(-0.2, 0.2, 2)) * pitch_m
        size, angle = rng.uniform(*size_m, 2), rng.uniform(0, 2 * np.pi)
        corners = (np.array(SHAPES[rng.integers(len(SHAPES))]) - 0.5) * size
        if turned:
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            found.append(shapely.Polygon(corners @ turn.T + middle))
        else:
            found.append(shapely.box(*np.round(2 * (middle - size / 2)) / 2, *np.round(2 * (middle + size / 2)) / 2))
    return found


def open_positions(terrain, count, rng):
    """Random positions [count,2] in the largest open area."""
    found = np.empty((0, 2))
    while len(found) < count:
        xy = rng.uniform((0, 0), terrain.size_m, (2 * count, 2))
        found = np.concatenate([found, xy[terrain.area_of(xy) == 0]])
    return found[:count]
