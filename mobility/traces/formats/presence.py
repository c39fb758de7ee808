"""Presence of nodes as other simulators state it: the times between which a node takes part, in a file of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from fedmule.mobility.traces.formats.files import PACKED
from fedmule.mobility.traces.trace import Rows

Waypoint = tuple[float, float, float]  # t, x, y
Stay = tuple[float, float]  # the times at which a node comes and goes


def first_file(paths: Iterable[Path]) -> Path | None:
    """First of these files that exists, compressed or not."""
    packed = (path.with_name(path.name + packing) for path in paths for packing in ("", *PACKED))
    return next((path for path in packed if path.is_file()), None)


def stays_of(events: list[tuple[float, bool]]) -> list[Stay]:
    """Stays from the times at which a node comes (True) or goes (False); without any it is always present."""
    stays: list[Stay] = []
    since: float | None = -math.inf
    for k, (t, comes) in enumerate(sorted(events, key=lambda event: event[0])):
        if comes:
            since = t if since is None or k == 0 else since
        elif since is not None:
            stays.append((since, t))
            since = None
    return stays if since is None else [*stays, (since, math.inf)]


def add_while_present(
    rows: Rows, name: str, path: list[Waypoint], stays: Iterable[Stay], end_s: float = math.inf
) -> None:
    """Add the parts of a path during stays; after one that ends before `end_s` the node is absent."""
    for start_s, stop_s in stays:
        inside = _clip(path, start_s, stop_s)
        for waypoint in inside:
            rows.add(name, *waypoint)
        if inside and stop_s < end_s:
            rows.gone(name, stop_s)


def _clip(path: list[Waypoint], start_s: float, stop_s: float) -> list[Waypoint]:
    """Part of a path between two times; its last position is held, and before its first there is none."""

    def at(t: float) -> Waypoint:
        before = [w for w in path if w[0] <= t]
        after = [w for w in path if w[0] > t]
        if not after:
            return (t, *before[-1][1:])
        (t1, x1, y1), (t2, x2, y2) = before[-1], after[0]
        fraction = (t - t1) / (t2 - t1)
        return t, x1 + fraction * (x2 - x1), y1 + fraction * (y2 - y1)

    start_s = max(start_s, path[0][0])
    if stop_s < start_s:
        return []
    inside = [w for w in path if start_s <= w[0] <= stop_s]
    if not inside or inside[0][0] > start_s:
        inside.insert(0, at(start_s))
    if stop_s < math.inf and inside[-1][0] < stop_s:
        inside.append(at(stop_s))
    return inside
