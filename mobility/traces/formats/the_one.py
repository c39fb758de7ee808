"""The ONE's files: external movement (positions at a constant interval) and external paths, with their activity."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fedmule.mobility.traces.formats.files import PACKED, number, open_text, written, wrong
from fedmule.mobility.traces.formats.ns2 import clip
from fedmule.mobility.traces.trace import Rows, Trace, TraceError, samples

Line = tuple[int, list[str]]  # its number in the file, and its fields


def read_movement(path: Path) -> Trace:
    """A heading `minT maxT minX maxX minY maxY`, then rows `time id x y`."""
    rows = Rows()
    (_, end_s, *_), lines = _heading_and_rows(path, "minT maxT minX maxX minY maxY", (6, 8))
    for line, fields in lines:
        if len(fields) not in (4, 5):
            raise wrong(path, line, "must be time id x y", " ".join(fields))
        t, x, y = (number(path, line, name, value) for name, value in zip("txy", fields[:1] + fields[2:4], strict=True))
        rows.add(fields[1], t, x, y)
    if not len(rows):
        raise TraceError(f"{path}: holds no rows")
    return rows.trace(end_s)


def _heading_and_rows(path: Path, names: str, widths: tuple[int, ...]) -> tuple[list[float], Iterator[Line]]:
    """The numbers of the heading, and what follows: each row's line in the file and its fields."""
    lines = _rows(path)
    line, heading = next(lines, (0, []))
    if not heading:
        raise TraceError(f"{path}: holds no rows")
    if len(heading) not in widths:
        raise wrong(path, line, f"must be a heading {names}", " ".join(heading))
    return [number(path, line, "the heading", value) for value in heading], lines


def _rows(path: Path) -> Iterator[Line]:
    with open_text(path) as file:
        for line, text in enumerate(file, 1):
            fields = text.split()
            if fields and not text.startswith("#"):
                yield line, fields


def write_movement(path: Path, trace: Trace, step_s: float) -> None:
    """Whoever comes later or is gone has no rows for that time; nodes are numbered from 0."""
    low_x, low_y, high_x, high_y = trace.bounds
    with written(path) as file:
        heading = (trace.begin_s, trace.end_s, low_x, high_x, low_y, high_y)
        file.write((" ".join(map(repr, heading)) + "\n").encode())
        for t, x, y in samples(trace, step_s):
            there = np.flatnonzero(~np.isnan(x)).tolist()
            file.write("".join(f"{t!r} {i} {float(x[i])!r} {float(y[i])!r}\n" for i in there).encode())


def read_paths(path: Path) -> Trace:
    """A heading `maxID minT maxT minX maxX minY maxY`, then rows `id t,x,y t,x,y …`: one path each, in order.

    Between two paths a node stands where the first ended. A file with suffix .act beside it has rows `id start end`:
    when nodes are there.
    """
    ways: dict[str, list[tuple[float, float, float]]] = {}
    (_, _, end_s, *_), lines = _heading_and_rows(path, "maxID minT maxT minX maxX minY maxY", (7,))
    for line, (node, *points) in lines:
        way = ways.setdefault(node, [])
        for k, point in enumerate(points):
            values = point.split(",")
            if len(values) != 3:
                raise wrong(path, line, "must be id t,x,y t,x,y …", point)
            t, x, y = (number(path, line, name, value) for name, value in zip("txy", values, strict=True))
            if way and t < way[-1][0]:
                raise wrong(path, line, "time goes back", point)
            if k == 0 and way and (x, y) != way[-1][1:]:
                way.append((t, *way[-1][1:]))
            way.append((t, x, y))
    if not ways:
        raise TraceError(f"{path}: holds no paths")
    rows, active = Rows(), _activity(path)
    for node, way in ways.items():
        start_s, stop_s = active.get(node, (-math.inf, math.inf))
        for waypoint in clip(way, start_s, stop_s) if way else ():
            rows.add(node, *waypoint)
        if stop_s < end_s:
            rows.gone(node, stop_s)
    return rows.trace(end_s)


def _activity(path: Path) -> dict[str, tuple[float, float]]:
    plain = path.with_suffix("") if path.suffix in PACKED else path
    beside = plain.with_suffix(".act")
    active: dict[str, tuple[float, float]] = {}
    if not beside.is_file():
        return active
    for line, fields in _rows(beside):
        if len(fields) != 3:
            raise wrong(beside, line, "must be id start end", " ".join(fields))
        start_s, stop_s = (number(beside, line, name, v) for name, v in zip(("start", "end"), fields[1:], strict=True))
        active[fields[0]] = start_s, stop_s
    return active


def write_paths(path: Path, trace: Trace) -> None:
    """One path per stay; nodes are numbered from 0. Between two stays a node waits where the first ended."""
    low_x, low_y, high_x, high_y = trace.bounds
    with written(path) as file:
        heading = (trace.begin_s, trace.end_s, low_x, high_x, low_y, high_y)
        file.write((f"{len(trace) - 1} " + " ".join(map(repr, heading)) + "\n").encode())
        for i in range(len(trace)):
            rows = slice(trace.first[i], trace.first[i + 1])
            waypoints = np.stack([trace.t[rows], trace.x[rows], trace.y[rows]], axis=1)
            for stay in np.split(waypoints, np.flatnonzero(np.isnan(waypoints[:, 1])) + 1):
                points = [",".join(map(repr, w)) for w in stay[~np.isnan(stay[:, 1])].tolist()]
                if points:
                    file.write(f"{i} {' '.join(points)}\n".encode())
