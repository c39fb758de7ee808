"""Files of The ONE: external movement (positions at a constant interval) and external paths, with activity."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fedmule.mobility.traces.formats.files import PACKED, number, open_text, written, wrong
from fedmule.mobility.traces.formats.presence import Stay, add_while_present, first_file
from fedmule.mobility.traces.trace import Rows, Trace, TraceError, samples

Line = tuple[int, list[str]]  # its number in the file, and its fields


def read_movement(path: Path) -> Trace:
    """Read external movement: a header `minT maxT minX maxX minY maxY`, then rows `time id x y`."""
    rows = Rows()
    (_, end_s, *_), lines = _header_and_rows(path, "minT maxT minX maxX minY maxY", (6, 8))
    for line, fields in lines:
        if len(fields) not in (4, 5):
            raise wrong(path, line, "must be time id x y", " ".join(fields))
        t, x, y = (number(path, line, name, value) for name, value in zip("txy", fields[:1] + fields[2:4], strict=True))
        rows.add(fields[1], t, x, y)
    if not len(rows):
        raise TraceError(f"{path}: contains no rows")
    return rows.trace(end_s)


def _header_and_rows(path: Path, names: str, widths: tuple[int, ...]) -> tuple[list[float], Iterator[Line]]:
    """Numbers of the header, and the rows after it: line number and fields."""
    lines = _rows(path)
    line, header = next(lines, (0, []))
    if not header:
        raise TraceError(f"{path}: contains no rows")
    if len(header) not in widths:
        raise wrong(path, line, f"must be a header {names}", " ".join(header))
    return [number(path, line, "the header", value) for value in header], lines


def _rows(path: Path) -> Iterator[Line]:
    with open_text(path) as file:
        for line, text in enumerate(file, 1):
            fields = text.split()
            if fields and not text.startswith("#"):
                yield line, fields


def write_movement(path: Path, trace: Trace, step_s: float) -> None:
    """Write external movement; nodes are numbered from 0 and have no rows while absent."""
    low_x, low_y, high_x, high_y = trace.bounds
    with written(path) as file:
        header = (trace.begin_s, trace.end_s, low_x, high_x, low_y, high_y)
        file.write((" ".join(map(repr, header)) + "\n").encode())
        for t, x, y in samples(trace, step_s):
            there = np.flatnonzero(~np.isnan(x)).tolist()
            file.write("".join(f"{t!r} {i} {float(x[i])!r} {float(y[i])!r}\n" for i in there).encode())


def read_paths(path: Path) -> Trace:
    """Read external paths: a header `maxID minT maxT minX maxX minY maxY`, then rows `id t,x,y t,x,y …`.

    Each row is one path, in order; between two paths a node stays at the end of the first. A file with suffix .act
    beside it says when nodes are present, in rows `id start end`.
    """
    paths: dict[str, list[tuple[float, float, float]]] = {}
    (_, _, end_s, *_), lines = _header_and_rows(path, "maxID minT maxT minX maxX minY maxY", (7,))
    for line, (node, *points) in lines:
        waypoints = paths.setdefault(node, [])
        for k, point in enumerate(points):
            values = point.split(",")
            if len(values) != 3:
                raise wrong(path, line, "must be id t,x,y t,x,y …", point)
            t, x, y = (number(path, line, name, value) for name, value in zip("txy", values, strict=True))
            if waypoints and t < waypoints[-1][0]:
                raise wrong(path, line, "times must not decrease", point)
            if k == 0 and waypoints and (x, y) != waypoints[-1][1:]:
                waypoints.append((t, *waypoints[-1][1:]))
            waypoints.append((t, x, y))
    if not paths:
        raise TraceError(f"{path}: contains no paths")
    rows, active = Rows(), _activity(path)
    for node, waypoints in paths.items():
        if waypoints:
            add_while_present(rows, node, waypoints, active.get(node, [(-math.inf, math.inf)]), end_s)
    return rows.trace(end_s)


def activity_paths(path: Path) -> Path | None:
    """Find the activity file beside a file of paths: town.act beside town.path."""
    plain = path.with_suffix("") if path.suffix in PACKED else path
    return first_file([plain.with_suffix(".act")])


def _activity(path: Path) -> dict[str, list[Stay]]:
    """Stays of each node, from the file beside; a node without any there is always present."""
    beside = activity_paths(path)
    active: dict[str, list[Stay]] = {}
    if beside is None:
        return active
    for line, fields in _rows(beside):
        if len(fields) != 3:
            raise wrong(beside, line, "must be id start end", " ".join(fields))
        start_s, stop_s = (number(beside, line, name, v) for name, v in zip(("start", "end"), fields[1:], strict=True))
        if stop_s < start_s:
            raise wrong(beside, line, "must not end before it starts", " ".join(fields))
        active.setdefault(fields[0], []).append((start_s, stop_s))
    return {node: sorted(stays) for node, stays in active.items()}


def write_paths(path: Path, trace: Trace) -> None:
    """Write external paths, one per stay; nodes are numbered from 0 and, while absent, wait at the end of a stay."""
    low_x, low_y, high_x, high_y = trace.bounds
    with written(path) as file:
        header = (trace.begin_s, trace.end_s, low_x, high_x, low_y, high_y)
        file.write((f"{len(trace) - 1} " + " ".join(map(repr, header)) + "\n").encode())
        for i in range(len(trace)):
            rows = slice(trace.first[i], trace.first[i + 1])
            waypoints = np.stack([trace.t[rows], trace.x[rows], trace.y[rows]], axis=1)
            for stay in np.split(waypoints, np.flatnonzero(np.isnan(waypoints[:, 1])) + 1):
                points = [",".join(map(repr, w)) for w in stay[~np.isnan(stay[:, 1])].tolist()]
                if points:
                    file.write(f"{i} {' '.join(points)}\n".encode())
