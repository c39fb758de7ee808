"""ns-2 movement scripts: start positions, and orders to go straight to a position at a speed."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedmule.mobility.traces.formats.files import number, open_text, written, wrong
from fedmule.mobility.traces.trace import Rows, Trace, TraceError

NUMBER = r"(\S+?)"
AT = rf'^\$ns_\s+at\s+{NUMBER}\s+"'
NODE = r"\$node_\((\d+)\)\s+"
SETDEST = re.compile(rf'{AT}{NODE}setdest\s+{NUMBER}\s+{NUMBER}\s+{NUMBER}\s*"')
FIRST = re.compile(rf"^{NODE}set\s+([XYZ])_\s+{NUMBER}\s*$")
ACTIVITY = re.compile(rf'{AT}\$g\((\d+)\)\s+(start|stop)\s*"')
OTHER = re.compile(r'^(#|set\s|puts\s|\$god_|\$ns_\s+at\s+\S+\s+"\$god_)')


@dataclass
class _Node:
    """The lines of a script about one node."""

    position: dict[str, float] = field(default_factory=dict)
    line: int = 0
    orders: list[tuple[float, float, float, float]] = field(default_factory=list)  # time, to x, to y, speed
    starts: list[float] = field(default_factory=list)  # if the script says when the node is present
    stops: list[float] = field(default_factory=list)


def read_setdest(path: Path) -> Trace:
    """Read a script; nodes are present from time 0, or between `$g(i) start` and `stop` of SUMO's activity script."""
    nodes: dict[str, _Node] = {}
    unfinished = False
    with open_text(path) as file:
        for line, raw in enumerate(file, 1):
            text = raw.strip().replace("\\$", "$")
            if not text or OTHER.match(text):
                continue
            if found := SETDEST.match(text):
                t, name, *values = found.groups()
                x, y, speed = (number(path, line, what, v) for what, v in zip("xyv", values, strict=True))
                at_s = number(path, line, "the time", t)
                if min(at_s, speed) < 0:
                    raise wrong(path, line, "neither the time nor the speed may be negative", text)
                nodes.setdefault(name, _Node(line=line)).orders.append((at_s, x, y, speed))
            elif found := FIRST.match(text):
                name, axis, value = found.groups()
                nodes.setdefault(name, _Node(line=line)).position[axis] = number(path, line, axis, value)
            elif found := ACTIVITY.match(text):
                t, name, what = found.groups()
                node = nodes.setdefault(name, _Node(line=line))
                (node.starts if what == "start" else node.stops).append(number(path, line, "the time", t))
            elif not raw.endswith("\n") and text.startswith("$") and text.count('"') < 2 and nodes:
                unfinished = True  # the last line is truncated
            else:
                raise wrong(path, line, "is neither a start position nor setdest", text)
    if not nodes:
        raise TraceError(f"{path}: contains no node")
    rows = Rows()
    for name, node in nodes.items():
        if not {"X", "Y"} <= set(node.position):
            raise wrong(path, node.line, f"the start position of node {name} is missing", "set X_, set Y_")
        _play(rows, name, node)
    return replace(rows.trace(), unfinished=unfinished)


def _play(rows: Rows, name: str, node: _Node) -> None:
    """Add the waypoints that follow from a node's orders: each starts where the one before has led by then."""
    x, y = node.position["X"], node.position["Y"]
    path = [(0.0, x, y)]
    to_x, to_y, arrives = x, y, 0.0
    for t, goal_x, goal_y, speed in sorted(node.orders, key=lambda order: order[0]):
        since = path[-1][0]
        if t < arrives:  # a new order while it is still moving
            fraction = (t - since) / (arrives - since)
            x, y = x + fraction * (to_x - x), y + fraction * (to_y - y)
        else:
            if arrives > since:
                path.append((arrives, to_x, to_y))
            x, y = to_x, to_y
        if t > path[-1][0]:
            path.append((t, x, y))
        distance = math.hypot(goal_x - x, goal_y - y)
        if speed > 0:
            to_x, to_y, arrives = goal_x, goal_y, t + distance / speed
        else:
            to_x, to_y, arrives = x, y, t
    if arrives > path[-1][0]:
        path.append((arrives, to_x, to_y))
    _add_while_present(rows, name, path, min(node.starts, default=-math.inf), max(node.stops, default=math.inf))


def _add_while_present(
    rows: Rows, name: str, path: list[tuple[float, float, float]], start_s: float, stop_s: float
) -> None:
    """Add the part of a path between two times; after the second the node is absent."""
    for waypoint in clip(path, start_s, stop_s):
        rows.add(name, *waypoint)
    if stop_s < math.inf:
        rows.gone(name, stop_s)


def clip(path: list[tuple[float, float, float]], start_s: float, stop_s: float) -> list[tuple[float, float, float]]:
    """Part of a path between two times; its last position is held."""

    def at(t: float) -> tuple[float, float, float]:
        before = [w for w in path if w[0] <= t]
        after = [w for w in path if w[0] > t]
        if not before or not after:
            return (t, *(before[-1] if before else after[0])[1:])
        (t1, x1, y1), (t2, x2, y2) = before[-1], after[0]
        fraction = (t - t1) / (t2 - t1)
        return t, x1 + fraction * (x2 - x1), y1 + fraction * (y2 - y1)

    inside = [w for w in path if start_s <= w[0] <= stop_s]
    if start_s > -math.inf and (not inside or inside[0][0] > start_s):
        inside.insert(0, at(max(start_s, path[0][0])))
    if stop_s < math.inf and inside[-1][0] < stop_s:
        inside.append(at(stop_s))
    return inside


def write_setdest(path: Path, trace: Trace) -> None:
    """Write a script; nodes are numbered from 0 and, while absent, stand at their next or last position."""
    with written(path) as file:
        for i in range(len(trace)):
            t, x, y = (column[trace.first[i] : trace.first[i + 1]] for column in (trace.t, trace.x, trace.y))
            here = x == x
            t, x, y = (column[here].tolist() for column in (t - trace.begin_s, x, y))
            lines = [f"$node_({i}) set X_ {x[0]!r}", f"$node_({i}) set Y_ {y[0]!r}", f"$node_({i}) set Z_ 0.0"]
            for k in range(1, len(t)):
                distance, seconds = math.hypot(x[k] - x[k - 1], y[k] - y[k - 1]), t[k] - t[k - 1]
                if distance > 0:
                    speed = distance / seconds if seconds > 0 else 1e9  # a jump
                    lines.append(f'$ns_ at {t[k - 1]!r} "$node_({i}) setdest {x[k]!r} {y[k]!r} {speed!r}"')
            file.write(("\n".join(lines) + "\n").encode())
