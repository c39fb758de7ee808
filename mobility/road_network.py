"""Roads: lines that join where a point of one lies on another, closed where something stops movement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import shapely

from fedmule.mobility.models.movement import FloatArray, IntArray, MovementError
from fedmule.mobility.terrain import Terrain

ACCESSES = 500  # pieces of road to try where something stands before the nearest one
JOIN_DIGITS = 3  # points that agree to the millimetre are one

Line = Sequence[Sequence[float]]  # [[x, y], …]


class RoadNetwork:
    """The parts of lines that lie in an open area, as straight pieces between nodes, and shortest ways on them."""

    def __init__(self, terrain: Terrain, lines: Iterable[Line], area: int = 0) -> None:
        ends = _open_pieces(terrain.areas[area], lines)
        points = np.clip(ends.reshape(-1, 2), 0.0, terrain.size_m)
        rounded = np.round(points, JOIN_DIGITS) + 0.0
        _, first, node = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
        self.nodes: FloatArray = points[first]
        pieces = np.unique(np.sort(node.reshape(-1, 2), axis=1), axis=0)
        self.pieces: IntArray = pieces[pieces[:, 0] < pieces[:, 1]]  # [e,2] their nodes
        if not len(self.pieces):
            raise MovementError("has no road on the open ground", ".roads")
        self.length_m: FloatArray = np.hypot(*(self.nodes[self.pieces[:, 0]] - self.nodes[self.pieces[:, 1]]).T)
        self._neighbours = _neighbours(self.pieces, self.length_m, len(self.nodes))
        self.part = _parts(self.pieces, len(self.nodes))[self.pieces[:, 0]]  # [e] connected parts, longest first
        by_length = np.argsort(-np.bincount(self.part, self.length_m), kind="stable")
        self.part = np.argsort(by_length)[self.part]
        lines_ = np.asarray(shapely.linestrings(self.nodes[self.pieces]))
        self.parts = np.array([shapely.multilinestrings(lines_[self.part == p]) for p in range(len(by_length))])
        self._rows = [np.flatnonzero(self.part == p) for p in range(len(by_length))]
        self._trees = [shapely.STRtree(lines_[rows]) for rows in self._rows]
        self._until_m = np.cumsum(self.length_m[self._rows[0]])

    def random_positions(self, uniform: FloatArray) -> FloatArray:
        """Positions [m,2] uniform over the length of the longest connected part, from uniform numbers [m]."""
        at = uniform * self._until_m[-1]
        row = np.minimum(np.searchsorted(self._until_m, at, side="right"), len(self._until_m) - 1)
        piece = self._rows[0][row]
        share = np.clip(1 - (self._until_m[row] - at) / self.length_m[piece], 0.0, 1.0)
        start, end = self.nodes[self.pieces[piece, 0]], self.nodes[self.pieces[piece, 1]]
        return start + share[:, None] * (end - start)

    def nearest(self, xy: FloatArray, part: int = 0) -> tuple[FloatArray, IntArray]:
        """The positions [m,2] of a part nearest to positions [m,2], and the pieces [m] they lie on."""
        row = self._trees[part].nearest(shapely.points(xy))
        piece = self._rows[part][row]
        return self._feet(xy, piece), piece

    def access(self, terrain: Terrain, xy: FloatArray, part: int) -> FloatArray:
        """The position [2] of a part nearest to a position [2], if one can one that can be gone to straight."""
        nearest = self.nearest(xy[None], part)[0][0]
        if terrain.clear(xy[None], nearest[None])[0]:
            return nearest
        positions = self._feet(np.broadcast_to(xy, (len(self._rows[part]), 2)), self._rows[part])
        gap = np.hypot(*(positions - xy).T)
        near = np.argsort(gap, kind="stable")[:ACCESSES]
        seen = near[terrain.clear(np.broadcast_to(xy, (len(near), 2)), positions[near])]
        return positions[seen[0]] if seen.size else nearest

    def gaps(self, xy: FloatArray) -> FloatArray:
        """How far each connected part [p] is from a position [2]."""
        return np.asarray(shapely.distance(self.parts, shapely.Point(*xy)))

    def _feet(self, xy: FloatArray, piece: IntArray) -> FloatArray:
        """The position [m,2] of each piece [m] nearest to xy [m,2]."""
        start, end = self.nodes[self.pieces[piece, 0]], self.nodes[self.pieces[piece, 1]]
        way = end - start
        share = np.clip(((xy - start) * way).sum(axis=1) / (way * way).sum(axis=1), 0.0, 1.0)
        return start + share[:, None] * way

    def routes(self, start: FloatArray, goal: FloatArray, part: int = 0) -> list[FloatArray]:
        """The shortest ways, each [k,2], between positions on a part [m,2] and [m,2]."""
        from fedmule.mobility.astar import shortest  # compiled, so only where it is needed

        (start, a), (goal, b) = self.nearest(start, part), self.nearest(goal, part)
        routes = []
        for i in range(len(start)):
            through = np.empty(0, dtype=np.int64)
            if a[i] != b[i]:
                through = shortest(
                    *self._neighbours, self.nodes, self.pieces[a[i]], start[i], self.pieces[b[i]], goal[i]
                )
            routes.append(np.concatenate([start[i][None], self.nodes[through], goal[i][None]]))
        return routes


def road_network(
    terrain: Terrain, lines: Sequence[Sequence[Sequence[float]]], block_m: tuple[float, float] | None, area: int = 0
) -> RoadNetwork:
    """Roads along lines, or streets in a grid of blocks, in an open area of the terrain."""
    return RoadNetwork(terrain, lines if block_m is None else grid_lines(terrain.size_m, block_m), area)


def grid_lines(size_m: tuple[float, float], block_m: tuple[float, float]) -> list[list[list[float]]]:
    """Streets a block apart, as many as there is room for, in the middle; a line for every side of a block."""
    x, y = (streets(size, block).tolist() for size, block in zip(size_m, block_m, strict=True))
    down = [[[a, b], [a, c]] for a in x for b, c in pairwise(y if len(y) > 1 else [0.0, *y, size_m[1]])]
    across = [[[a, c], [b, c]] for c in y for a, b in pairwise(x if len(x) > 1 else [0.0, *x, size_m[0]])]
    return down + across


def streets(size_m: float, block_m: float) -> FloatArray:
    """Where streets cross an axis."""
    blocks = int(size_m / block_m * (1 + 1e-9))
    return np.clip((size_m - blocks * block_m) / 2 + block_m * np.arange(blocks + 1), 0.0, size_m)


def lines_of(graph: Any) -> list[list[list[float]]]:
    """The lines of a networkx graph whose nodes have x and y, or a pos, or are pairs (x, y) themselves.

    The geometry of an edge, a shapely LineString, is followed where there is one, as in OSMnx.
    """

    def position(node: Any) -> list[float]:
        data = graph.nodes[node]
        x, y = (data["x"], data["y"]) if "x" in data else data.get("pos", node)
        return [float(x), float(y)]

    return [
        [[float(x), float(y)] for x, y, *_ in data["geometry"].coords]
        if "geometry" in data
        else [position(a), position(b)]
        for a, b, data in graph.edges(data=True)
    ]


def _open_pieces(area: shapely.Polygon, lines: Iterable[Line]) -> FloatArray:
    """Straight pieces [e,2,2] of the lines, without what lies outside the area."""
    arrays = [np.asarray(line, dtype=float)[:, :2] for line in lines]
    ends = np.concatenate([np.empty((0, 2, 2)), *(np.stack([line[:-1], line[1:]], axis=1) for line in arrays)])
    ends = _split(ends, np.unique(np.concatenate([np.empty((0, 2)), *arrays]), axis=0))
    pieces = np.asarray(shapely.linestrings(ends))
    covered = shapely.covers(area, pieces)
    cut = shapely.get_parts(shapely.intersection(area, pieces[~covered]))
    cut = shapely.get_parts(cut)
    cut = cut[(shapely.get_type_id(cut) == 1) & (shapely.get_num_points(cut) > 1)]
    rest = [np.stack([xy[:-1], xy[1:]], axis=1) for xy in (shapely.get_coordinates(line) for line in cut)]
    return np.concatenate([ends[covered], *rest])


def _split(ends: FloatArray, at: FloatArray) -> FloatArray:
    """Pieces [e,2,2] cut in two wherever one of the points [k,2] lies on them."""
    tree = shapely.STRtree(np.asarray(shapely.linestrings(ends)))
    point, piece = tree.query(shapely.points(at), predicate="dwithin", distance=0.5 * 10.0**-JOIN_DIGITS)
    whole = np.delete(ends, piece, axis=0)
    cut = []
    for i in np.unique(piece):
        stops = np.concatenate([ends[i], at[point[piece == i]]])
        stops = stops[np.argsort(((stops - ends[i, 0]) * (ends[i, 1] - ends[i, 0])).sum(axis=1), kind="stable")]
        cut.append(np.stack([stops[:-1], stops[1:]], axis=1))
    return np.concatenate([whole, *cut])


def _neighbours(pieces: IntArray, length_m: FloatArray, count: int) -> tuple[IntArray, IntArray, FloatArray]:
    """For each node where its row begins [n+1], and in the rows neighbours and lengths."""
    here, there = np.concatenate([pieces, pieces[:, ::-1]]).T
    order = np.lexsort((there, here))
    return np.searchsorted(here[order], np.arange(count + 1)), there[order], np.tile(length_m, 2)[order]


def _parts(pieces: IntArray, count: int) -> IntArray:
    """The connected part [n] of each node."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    joined = coo_array((np.ones(len(pieces)), (pieces[:, 0], pieces[:, 1])), shape=(count, count))
    return np.asarray(connected_components(joined, directed=False)[1]).astype(np.int64)
