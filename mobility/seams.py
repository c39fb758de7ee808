"""Seams: lines along which a faster surface borders on a slower one, and the points on them that routes may use."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

POINTS = 160  # on all seams together, besides their corners; the more of them, the nearer routes are to the fastest
MITRE_LIMIT = 5.0


class Seams(NamedTuple):
    """Straight seams, a little on the fast side, and their nodes; those of seam j are node[first[j]:first[j+1]]."""

    ends: FloatArray  # [j,4] x and y of both ends
    slow: FloatArray  # [j] speed factors beside it
    fast: FloatArray  # [j]
    points: FloatArray  # [n,2] nodes
    first: IntArray  # [j+1]
    node: IntArray  # of each seam in turn, from one end to the other
    spacing_m: float  # largest distance between neighbouring nodes of a seam


def seams(
    polygons: Sequence[shapely.Polygon], factors: Sequence[float], ground: BaseGeometry, margin_m: float
) -> Seams:
    """Return the seams on the open ground, `margin_m` into the faster side.

    There a route along a seam has the higher speed, whatever rounding does.
    """
    shown = _shown(polygons, factors)
    found = [np.empty((0, 6))]
    levels = sorted({1.0, *shown})
    everywhere = shapely.box(*ground.bounds).buffer(10 * max(1.0, *np.abs(ground.bounds)))
    for slow, fast in pairwise(levels):
        if fast <= 1.0:
            area = everywhere.difference(shapely.union_all([shown[f] for f in levels if f < fast]))
        else:
            area = shapely.union_all([shown[f] for f in levels if f >= fast])
        lines = area.buffer(-margin_m, join_style="mitre", mitre_limit=MITRE_LIMIT).boundary.intersection(ground)
        for line in shapely.get_parts(lines):
            if shapely.get_type_id(line) == 1 and not line.is_empty:
                xy = shapely.get_coordinates(line)
                speeds = np.broadcast_to([slow, fast], (len(xy) - 1, 2))
                found.append(np.concatenate([xy[:-1], xy[1:], speeds], axis=1))
    rows = _joined(np.concatenate(found))
    return _with_nodes(rows)


def _shown(polygons: Sequence[shapely.Polygon], factors: Sequence[float]) -> dict[float, BaseGeometry]:
    """Where each speed factor applies: surfaces without what lies under others. Plain ground is left out."""
    shown: dict[float, list[BaseGeometry]] = {}
    above: BaseGeometry = shapely.Polygon()
    for polygon, factor in zip(reversed(polygons), reversed(factors), strict=True):
        shown.setdefault(float(factor), []).append(polygon.difference(above))
        above = above.union(polygon)
    return {factor: shapely.union_all(parts) for factor, parts in shown.items() if factor != 1.0}


def _joined(rows: FloatArray) -> FloatArray:
    """One row for each line, where speeds differ by several levels too."""
    back = (rows[:, 0] > rows[:, 2]) | ((rows[:, 0] == rows[:, 2]) & (rows[:, 1] > rows[:, 3]))
    rows = np.where(back[:, None], rows[:, [2, 3, 0, 1, 4, 5]], rows)
    _, same = np.unique(np.round(rows[:, :4], 6), axis=0, return_inverse=True)
    joined = np.empty((same.max() + 1 if len(rows) else 0, 6))
    for k in range(len(joined)):
        group = rows[same == k]
        joined[k] = [*group[0, :4], group[:, 4].min(), group[:, 5].max()]
    return joined


def _with_nodes(rows: FloatArray) -> Seams:
    length_m = np.hypot(rows[:, 2] - rows[:, 0], rows[:, 3] - rows[:, 1])
    rows, length_m = rows[length_m > 0], length_m[length_m > 0]
    spacing_m = float(length_m.sum()) / POINTS
    counts = np.ceil(length_m / spacing_m).astype(np.int64) + 1 if len(rows) else np.empty(0, dtype=np.int64)
    points = [
        row[:2] + np.linspace(0, 1, n)[:, None] * (row[2:4] - row[:2]) for row, n in zip(rows, counts, strict=True)
    ]
    every = np.concatenate([np.empty((0, 2)), *points])
    _, first, node = np.unique(np.round(every, 6), axis=0, return_index=True, return_inverse=True)
    return Seams(
        np.ascontiguousarray(rows[:, :4]),
        np.ascontiguousarray(rows[:, 4]),
        np.ascontiguousarray(rows[:, 5]),
        every[first],
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        node.reshape(-1).astype(np.int64),
        spacing_m,
    )
