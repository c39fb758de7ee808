"""BonnMotion movements: one line per node with t x y t x y …; a .params file beside it holds the duration."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedmule.mobility.traces.formats.files import PACKED, number, open_text, written, wrong
from fedmule.mobility.traces.trace import Rows, Trace, TraceError


def read_movements(path: Path) -> Trace:
    """Read a .movements file; nodes are numbered by their lines."""
    params = _params(path)
    width = 4 if params.get("J") == "3D" else 3  # 3D: the height is ignored
    rows = Rows()
    node = 0
    with open_text(path) as file:
        for line, text in enumerate(file, 1):
            if not text.strip() or text.startswith("#"):
                continue
            fields = text.split()
            if len(fields) % width:
                raise wrong(path, line, f"must be groups of {width} numbers, but has {len(fields)}", text)
            last = -np.inf
            for k in range(0, len(fields), width):
                t, x, y = (number(path, line, name, fields[k + j]) for j, name in enumerate("txy"))
                if t < last:
                    raise wrong(path, line, "times must not decrease", " ".join(fields[k : k + width]))
                rows.add(str(node), t, x, y)
                last = t
            node += 1
    if not node:
        raise TraceError(f"{path}: contains no node")
    return rows.trace(end_s=float(params.get("duration", "-inf")))


def _params(path: Path) -> dict[str, str]:
    plain = path.with_suffix("") if path.suffix in PACKED else path
    beside = plain.with_suffix(".params")
    if not beside.is_file():
        return {}
    lines = beside.read_text(encoding="utf-8").splitlines()
    params = {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}
    if "duration" in params:
        line = next(i for i, text in enumerate(lines, 1) if text.partition("=")[0].strip() == "duration")
        number(beside, line, "duration", params["duration"])
    return params


def write_movements(path: Path, trace: Trace) -> None:
    """Write a .movements file, in which absent nodes stay at their last position."""
    with written(path) as file:
        for i in range(len(trace)):
            rows = slice(trace.first[i], trace.first[i + 1])
            waypoints = np.stack([trace.t[rows], trace.x[rows], trace.y[rows]], axis=1)
            here = waypoints[~np.isnan(waypoints[:, 1])]
            file.write((" ".join(map(repr, here.ravel().tolist())) + "\n").encode())
