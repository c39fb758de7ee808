"""Roads: lines that join where a point of one lies on another, closed where a wall stands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely

from fedmule.mobility.models.movement import FloatArray, IntArray, MovementError
from fedmule.mobility.terrain import Terrain

if TYPE_CHECKING:
    from fedmule.mobility.astar import Network

ACCESSES = 500  # road segments to try if a wall stands between a position and the nearest one
JOIN_DIGITS = 3  # points that agree to the millimetre are one point

Line = Sequence[Sequence[float]]  # [[x, y], …]
# Positions [m,2] on roads, their segments [m], and the seconds [m] spent before a path begins there, or after it ends.
Access = tuple[FloatArray, IntArray, FloatArray]


class RoadNetwork:
    """The parts of lines that lie in an open area, as straight segments between nodes, and fastest paths on them."""

    def __init__(self, terrain: Terrain, lines: Iterable[Line], area: int = 0) -> None:
        ends = _split_at_surfaces(terrain, _open_segments(terrain.areas[area], lines))
        points = np.clip(ends.reshape(-1, 2), 0.0, terrain.size_m)
        rounded = np.round(points, JOIN_DIGITS) + 0.0
        _, first, node = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
        self.nodes: FloatArray = points[first]
        segments = np.unique(np.sort(node.reshape(-1, 2), axis=1), axis=0)
        self.segments: IntArray = segments[segments[:, 0] < segments[:, 1]]  # [e,2] nodes of each
        if not len(self.segments):
            raise MovementError("has no road on the open ground", ".roads")
        self.length_m: FloatArray = np.hypot(*(self.nodes[self.segments[:, 0]] - self.nodes[self.segments[:, 1]]).T)
        self._slowness = terrain.slowness(self.nodes[self.segments].mean(axis=1))  # [e] s/m
        self.top = terrain.highest_factor
        self.part = _parts(self.segments, len(self.nodes))[self.segments[:, 0]]  # [e] connected parts, longest first
        by_length = np.argsort(-np.bincount(self.part, self.length_m), kind="stable")
        self.part = np.argsort(by_length)[self.part]
        pieces = np.asarray(shapely.linestrings(self.nodes[self.segments]))
        self.parts = np.array([shapely.multilinestrings(pieces[self.part == p]) for p in range(len(by_length))])
        self._rows = [np.flatnonzero(self.part == p) for p in range(len(by_length))]
        self._trees = [shapely.STRtree(pieces[rows]) for rows in self._rows]
        self._until_m = np.cumsum(self.length_m[self._rows[0]])

    def random_positions(self, uniform: FloatArray) -> FloatArray:
        """Positions [m,2], uniform over the length of the longest connected part, from uniform numbers [m]."""
        at = uniform * self._until_m[-1]
        row = np.minimum(np.searchsorted(self._until_m, at, side="right"), len(self._until_m) - 1)
        segment = self._rows[0][row]
        fraction = np.clip(1 - (self._until_m[row] - at) / self.length_m[segment], 0.0, 1.0)
        start, end = self.nodes[self.segments[segment, 0]], self.nodes[self.segments[segment, 1]]
        return np.asarray(start + fraction[:, None] * (end - start))

    def random_positions_near(self, centre: FloatArray, radius_m: float, uniform: FloatArray) -> FloatArray:
        """Positions [m,2], uniform over what lies this near to centres [m,2] on the longest part, from numbers [m]."""
        start, end = np.moveaxis(self.nodes[self.segments[self._rows[0]]], 1, 0)
        way, length_m = end - start, self.length_m[self._rows[0]]
        found = np.empty((len(centre), 2))
        for i, (xy, u) in enumerate(zip(centre, uniform, strict=True)):
            # Each segment is near between the roots of a quadratic: foot of the perpendicular ± half a chord.
            foot = ((xy - start) * way).sum(axis=1) / length_m**2
            gap = np.hypot(*(start + foot[:, None] * way - xy).T)
            half = np.sqrt(np.maximum(radius_m**2 - gap**2, 0.0)) / length_m
            first, last = np.clip(foot - half, 0.0, 1.0), np.clip(foot + half, 0.0, 1.0)
            until_m = np.cumsum((last - first) * length_m)
            k = min(int(np.searchsorted(until_m, u * until_m[-1], side="right")), len(until_m) - 1)
            fraction = last[k] - (until_m[k] - u * until_m[-1]) / length_m[k]
            found[i] = start[k] + np.clip(fraction, first[k], last[k]) * way[k]
        return found

    def nearest(self, xy: FloatArray, part: int = 0) -> tuple[FloatArray, IntArray]:
        """Positions [m,2] on a part nearest to positions [m,2], and the segments [m] they lie on."""
        row = self._trees[part].nearest(shapely.points(xy))
        segment = self._rows[part][row]
        return self._feet(xy, segment), segment

    def access(self, terrain: Terrain, xy: FloatArray, part: int) -> tuple[FloatArray, IntArray]:
        """Position [1,2] at which to enter a part of the network from xy [2], and its segment [1].

        It is the nearest one in a straight line clear of walls, or simply the nearest where no line is clear.
        """
        nearest = self.nearest(xy[None], part)
        if terrain.clear(xy[None], nearest[0])[0]:
            return nearest
        positions = self._feet(np.broadcast_to(xy, (len(self._rows[part]), 2)), self._rows[part])
        gap = np.hypot(*(positions - xy).T)
        near = np.argsort(gap, kind="stable")[:ACCESSES]
        seen = near[terrain.clear(np.broadcast_to(xy, (len(near), 2)), positions[near])][:1]
        return (positions[seen], self._rows[part][seen]) if seen.size else nearest

    def gaps(self, xy: FloatArray) -> FloatArray:
        """Distance [p] of each connected part from a position [2]."""
        return np.asarray(shapely.distance(self.parts, shapely.Point(*xy)))

    def _feet(self, xy: FloatArray, segment: IntArray) -> FloatArray:
        """Position [m,2] on each segment [m] nearest to xy [m,2]."""
        start, end = self.nodes[self.segments[segment, 0]], self.nodes[self.segments[segment, 1]]
        along = end - start
        fraction = np.clip(((xy - start) * along).sum(axis=1) / (along * along).sum(axis=1), 0.0, 1.0)
        return np.asarray(start + fraction[:, None] * along)

    def candidates(
        self, here: FloatArray, there: FloatArray, off_road: float, most_s: float
    ) -> tuple[FloatArray, IntArray]:
        """Positions [k,2] at which a fast way may enter the roads, or leave them; see `astar.candidates`."""
        from fedmule.mobility.astar import candidates  # compiled, so only where it is needed

        found: tuple[FloatArray, IntArray] = candidates(self._network, here, there, off_road, most_s)
        return found

    def fastest(self, begin: Access, end: Access, aim: FloatArray) -> tuple[FloatArray, int, int, float]:
        """Fastest path [k,2] from one of several positions to another, which of these, and its seconds at 1 m/s."""
        from fedmule.mobility.astar import Ends, fastest  # compiled, so only where it is needed

        through, i, j, seconds = fastest(self._network, Ends(*begin), Ends(*end), aim)
        return np.concatenate([begin[0][i : i + 1], self.nodes[through], end[0][j : j + 1]]), i, j, seconds

    def routes(self, start: FloatArray, goal: FloatArray, part: int = 0) -> list[FloatArray]:
        """Fastest routes, each [k,2], between positions [m,2] and [m,2] on a part."""
        begin, end, none = self.nearest(start, part), self.nearest(goal, part), np.zeros(1)
        return [
            self.fastest((begin[0][[i]], begin[1][[i]], none), (end[0][[i]], end[1][[i]], none), end[0][i])[0]
            for i in range(len(start))
        ]

    @cached_property
    def _network(self) -> Network:
        from fedmule.mobility.astar import Network  # compiled, so only where it is needed

        neighbours = _neighbours(self.segments, self.length_m * self._slowness, len(self.nodes))
        return Network(self.nodes, self.segments, self._slowness, *neighbours, self.top)


def road_network(
    terrain: Terrain, lines: Sequence[Sequence[Sequence[float]]], block_m: tuple[float, float] | None, area: int = 0
) -> RoadNetwork:
    """Roads along lines, or streets in a grid of blocks, in an open area of the terrain."""
    return RoadNetwork(terrain, lines if block_m is None else grid_lines(terrain.size_m, block_m), area)


def grid_lines(size_m: tuple[float, float], block_m: tuple[float, float]) -> list[list[list[float]]]:
    """Lines of a centred grid of streets, as many as fit: one for every side of a block."""
    x, y = (streets(size, block).tolist() for size, block in zip(size_m, block_m, strict=True))
    down = [[[a, b], [a, c]] for a in x for b, c in pairwise(y if len(y) > 1 else [0.0, *y, size_m[1]])]
    across = [[[a, c], [b, c]] for c in y for a, b in pairwise(x if len(x) > 1 else [0.0, *x, size_m[0]])]
    return down + across


def streets(size_m: float, block_m: float) -> FloatArray:
    """Coordinates at which the streets of a centred grid cross an axis."""
    blocks = int(size_m / block_m * (1 + 1e-9))
    return np.clip((size_m - blocks * block_m) / 2 + block_m * np.arange(blocks + 1), 0.0, size_m)


def lines_of(graph: Any) -> list[list[list[float]]]:
    """Lines of a networkx graph whose nodes have x and y, or a pos, or are pairs (x, y) themselves.

    The geometry of an edge, a shapely LineString, is followed if there is one, as in OSMnx.
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


def _open_segments(area: shapely.Polygon, lines: Iterable[Line]) -> FloatArray:
    """Straight segments [e,2,2] of the lines, without what lies outside the area."""
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


def _split_at_surfaces(terrain: Terrain, ends: FloatArray) -> FloatArray:
    """Segments [e,2,2], split wherever a surface begins or ends, so that each has one speed."""
    if not terrain.surfaces:
        return ends
    split = [terrain.timed_route(segment, 1.0)[1] for segment in ends]
    return np.concatenate([np.empty((0, 2, 2)), *(np.stack([xy[:-1], xy[1:]], axis=1) for xy in split)])


def _split(ends: FloatArray, at: FloatArray) -> FloatArray:
    """Segments [e,2,2], split wherever one of the points [k,2] lies on them."""
    tree = shapely.STRtree(np.asarray(shapely.linestrings(ends)))
    point, segment = tree.query(shapely.points(at), predicate="dwithin", distance=0.5 * 10.0**-JOIN_DIGITS)
    uncut = np.delete(ends, segment, axis=0)
    cut = []
    for i in np.unique(segment):
        stops = np.concatenate([ends[i], at[point[segment == i]]])
        stops = stops[np.argsort(((stops - ends[i, 0]) * (ends[i, 1] - ends[i, 0])).sum(axis=1), kind="stable")]
        cut.append(np.stack([stops[:-1], stops[1:]], axis=1))
    return np.concatenate([uncut, *cut])


def _neighbours(segments: IntArray, seconds: FloatArray, count: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Adjacency by rows: where the row of each node begins [n+1], and the neighbours and seconds in the rows."""
    here, there = np.concatenate([segments, segments[:, ::-1]]).T
    order = np.lexsort((there, here))
    return np.searchsorted(here[order], np.arange(count + 1)), there[order], np.tile(seconds, 2)[order]


def _parts(segments: IntArray, count: int) -> IntArray:
    """Connected part [n] that each node belongs to."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    joined = coo_array((np.ones(len(segments)), (segments[:, 0], segments[:, 1])), shape=(count, count))
    return np.asarray(connected_components(joined, directed=False)[1]).astype(np.int64)
