"""Clearance: walls, grown by the distance that everybody keeps from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import shapely
from numpy.typing import NDArray

Polygons = NDArray[np.object_]

MITRE_LIMIT = 5.0  # a corner moves out by at most this many times the distance


def grown(polygons: Sequence[shapely.Polygon], distance_m: float) -> Polygons:
    """Union of polygons, grown by a distance: disjoint polygons with corners as sharp as before.

    Only polygons so near to each other that they may meet are joined, as a buffer about all of them at once takes
    seconds in a town.
    """
    given = np.array(polygons, dtype=object)
    group = _groups(given, 2 * MITRE_LIMIT * distance_m)
    order, size = np.argsort(group, kind="stable"), np.bincount(group)
    alone = size[group] == 1
    walls = np.asarray(shapely.union_all(given[alone][:, None], axis=1)).tolist()
    begin = np.cumsum(size) - size
    walls += [shapely.union_all(given[order[begin[g] : begin[g] + size[g]]]) for g in np.flatnonzero(size > 1)]
    return _buffered(np.array(walls, dtype=object), distance_m)


def shrunk(polygons: Polygons, distance_m: float) -> Polygons:
    """Disjoint polygons, each shrunk by a distance."""
    return _buffered(polygons, -distance_m)


def _buffered(geometries: Polygons, distance_m: float) -> Polygons:
    parts = shapely.get_parts(shapely.buffer(geometries, distance_m, join_style="mitre", mitre_limit=MITRE_LIMIT))
    kept = (shapely.get_type_id(parts) == shapely.GeometryType.POLYGON) & ~shapely.is_empty(parts)
    return np.asarray(parts[kept], dtype=object)


def _groups(polygons: Polygons, distance_m: float) -> NDArray[np.int64]:
    """The group [k] that each polygon belongs to: two that are within the distance of each other share one."""
    group = np.arange(len(polygons))
    if len(polygons):
        a, b = shapely.STRtree(polygons).query(polygons, predicate="dwithin", distance=distance_m)
        while (group[a] != group[b]).any():
            np.minimum.at(group, a, group[b])  # each takes the least number among its neighbours
            group = group[group]
    return np.unique(group, return_inverse=True)[1].astype(np.int64)
