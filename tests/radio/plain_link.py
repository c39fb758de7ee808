"""A plain twin of the compiled link: the same stretches, with shapely and one small array at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import shapely
from numpy.typing import NDArray

from fedmule.mobility.terrain import Obstacle
from fedmule.mobility.trajectory import Way
from fedmule.radio.jamming import JammingZone
from fedmule.radio.link import Radio
from fedmule.radio.obstruction import Obstruction

FloatArray = NDArray[np.float64]
WITHIN = 1e-9


class PlainLinks:
    """Links of a radio between obstacles and jamming zones."""

    def __init__(self, radio: Radio, obstacles: Sequence[Obstacle], zones: Sequence[JammingZone]) -> None:
        self.radio = radio
        self.obstruction = Obstruction(obstacles, zones)
        self._screens = [edges_of(obstacle.polygon) for obstacle in obstacles if obstacle.radio_loss_db > 0]
        self._zones = [edges_of(zone.polygon) for zone in zones if zone.noise_db > 0]

    def stretches(
        self, a: Way, b: Way, start_s: float, end_s: float, extra_db: float, at_jump: str = "left"
    ) -> Iterator[tuple[float, float]]:
        """Ends and rates of the stretches of the link between two paths over a span of time."""
        times = np.concatenate([a.times, b.times])
        cuts = np.unique(np.concatenate([[start_s], times[(times > start_s) & (times < end_s)], [end_s]]))
        starts = [way.at_times(cuts[:-1]) for way in (a, b)]
        ends = [way.at_times(cuts[1:], at_jump) for way in (a, b)]
        for k, (begin, end) in enumerate(pairwise(cuts.tolist())):
            legs = [(start[k], stop[k] - start[k]) for start, stop in zip(starts, ends, strict=True)]
            yield from self._over_legs(*legs[0], *legs[1], begin, end, extra_db)

    def _over_legs(
        self, a: FloatArray, u: FloatArray, b: FloatArray, v: FloatArray, begin: float, end: float, extra_db: float
    ) -> Iterator[tuple[float, float]]:
        shares = self.changes(a, u, b, v) if u.any() or v.any() else np.empty(0)
        cuts = np.concatenate([[0.0], shares, [1.0]])
        middles = (cuts[:-1] + cuts[1:]) / 2
        here, there = a + u * middles[:, None], b + v * middles[:, None]
        losses_db = self.obstruction.loss_db(here, there) + self.radio.shadow_db(here, there) + extra_db
        before = 0.0
        for (s0, s1), loss_db in zip(pairwise(cuts.tolist()), losses_db.tolist(), strict=True):
            ladder = self.radio.ladder(loss_db)
            crossed = crossing_shares(b - a, v - u, ladder.distances_m)
            for share in [*sorted({s for s in crossed if s0 < s < s1}), s1]:
                half = (before + share) / 2
                step = np.searchsorted(ladder.distances_m, np.hypot(*(b + v * half - (a + u * half))))
                rate = float(np.append(ladder.rates_bps, 0.0)[step])
                yield (end if share == 1.0 else begin + share * (end - begin)), rate
                before = share

    def changes(self, a: FloatArray, u: FloatArray, b: FloatArray, v: FloatArray) -> FloatArray:
        """Shares in (0,1), ascending, of two legs travelled at once at which the loss may change."""
        found = [np.empty(0)]
        box = shapely.MultiPoint([a, a + u, b, b + v]).envelope
        for corners, edges in self._screens:
            if not shapely.MultiPoint(corners).envelope.intersects(box):
                continue
            found.append(crossings(b, v, corners, edges))
            if u.any():
                found += [crossings(a, u, corners, edges), collinear(a - corners, u, b - corners, v)]
            else:
                found.append(crossings(b, v, a, corners - a))
        for corners, edges in self._zones:
            for start, leg in ((a, u), (b, v)):
                with np.errstate(divide="ignore", invalid="ignore"):
                    along = cross(start - corners, leg) / cross(edges, leg)
                hit = (along >= -WITHIN) & (along <= 1 + WITHIN)
                found.append(crossings(start, leg, corners[hit], edges[hit]))
        if self.radio.shadowing:
            side_m = self.radio.shadowing.table()[1][3]
            for start, leg in ((a, u), (b, v)):
                for here, there in zip(start / side_m, (start + leg) / side_m, strict=True):
                    borders = np.arange(np.ceil(min(here, there)), np.floor(max(here, there)) + 1)
                    found.append((borders - here) / (there - here) if there != here else np.empty(0))
        shares = np.concatenate(found)
        return np.unique(shares[(shares > 0) & (shares < 1)])


def edges_of(polygon: shapely.Polygon) -> tuple[FloatArray, FloatArray]:
    """Starts [k,2] and vectors [k,2] of the edges of a polygon and its holes."""
    rings = [shapely.get_coordinates(ring) for ring in (polygon.exterior, *polygon.interiors)]
    return np.concatenate([ring[:-1] for ring in rings]), np.concatenate([np.diff(ring, axis=0) for ring in rings])


def cross(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])


def crossings(start: FloatArray, leg: FloatArray, origins: FloatArray, directions: FloatArray) -> FloatArray:
    """Shares s at which start + s·leg meets the lines origins + u·directions; parallel lines give none."""
    det = cross(leg, directions)
    numerator = cross(np.broadcast_to(origins - start, directions.shape), directions)
    return numerator[det != 0] / det[det != 0]


def collinear(a: FloatArray, u: FloatArray, b: FloatArray, v: FloatArray) -> FloatArray:
    """Shares s at which a + s·u, b + s·v and 0 lie on a line, for a and b [m,2]."""
    constant, linear, quadratic = cross(a, b), cross(a, v) + cross(u, b), float(cross(u, v))
    with np.errstate(divide="ignore", invalid="ignore"):
        half = -(linear + np.copysign(np.sqrt(linear**2 - 4 * quadratic * constant), linear)) / 2
        roots = np.concatenate([half / quadratic, constant / half])
    return roots[np.isfinite(roots)]


def crossing_shares(gap: FloatArray, change: FloatArray, distances_m: FloatArray) -> list[float]:
    """Shares s at which |gap + s·change| is one of these distances [k]."""
    quadratic, half_linear = float(change @ change), float(gap @ change)
    root = half_linear * half_linear - quadratic * (gap @ gap - distances_m**2)
    if quadratic == 0:
        return []
    reach = np.sqrt(root[root >= 0])
    return np.concatenate([(-half_linear - reach) / quadratic, (-half_linear + reach) / quadratic]).tolist()
