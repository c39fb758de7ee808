"""ns-2's movement scripts: first positions, and from a time on straight to a position at a speed."""

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
    position: dict[str, float] = field(default_factory=dict)
    line: int = 0
    orders: list[tuple[float, float, float, float]] = field(default_factory=list)  # time, to x, to y, speed
    starts: list[float] = field(default_factory=list)  # where the script says when it is there
    stops: list[float] = field(default_factory=list)


def read_setdest(path: Path) -> Trace:
    """Nodes are there from time 0, or as the lines `$g(i) start` and `stop` of SUMO's activity script say."""
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
                    raise wrong(path, line, "neither the time nor the speed can be below 0", text)
                nodes.setdefault(name, _Node(line=line)).orders.append((at_s, x, y, speed))
            elif found := FIRST.match(text):
                name, axis, value = found.groups()
                nodes.setdefault(name, _Node(line=line)).position[axis] = number(path, line, axis, value)
            elif found := ACTIVITY.match(text):
                t, name, what = found.groups()
                node = nodes.setdefault(name, _Node(line=line))
                (node.starts if what == "start" else node.stops).append(number(path, line, "the time", t))
            elif not raw.endswith("\n") and text.startswith("$") and text.count('"') < 2 and nodes:
                unfinished = True  # the last line breaks off
            else:
                raise wrong(path, line, "is neither a first position nor setdest", text)
    if not nodes:
        raise TraceError(f"{path}: holds no node")
    rows = Rows()
    for name, node in nodes.items():
        if not {"X", "Y"} <= set(node.position):
            raise wrong(path, node.line, f"the first position of node {name} is nowhere given", "set X_, set Y_")
        _play(rows, name, node)
    return replace(rows.trace(), unfinished=unfinished)


def _play(rows: Rows, name: str, node: _Node) -> None:
    """The waypoints that come of a node's orders: each begins where the one before has led by then."""
    x, y = node.position["X"], node.position["Y"]
    way = [(0.0, x, y)]
    to_x, to_y, arrives = x, y, 0.0
    for t, goal_x, goal_y, speed in sorted(node.orders, key=lambda order: order[0]):
        since = way[-1][0]
        if t < arrives:  # under way: a new order before it is there
            share = (t - since) / (arrives - since)
            x, y = x + share * (to_x - x), y + share * (to_y - y)
        else:
            if arrives > since:
                way.append((arrives, to_x, to_y))
            x, y = to_x, to_y
        if t > way[-1][0]:
            way.append((t, x, y))
        distance = math.hypot(goal_x - x, goal_y - y)
        if speed > 0:
            to_x, to_y, arrives = goal_x, goal_y, t + distance / speed
        else:
            to_x, to_y, arrives = x, y, t
    if arrives > way[-1][0]:
        way.append((arrives, to_x, to_y))
    _add_while_there(rows, name, way, min(node.starts, default=-math.inf), max(node.stops, default=math.inf))


def _add_while_there(
    rows: Rows, name: str, way: list[tuple[float, float, float]], start_s: float, stop_s: float
) -> None:
    """Add the part of a way between two times; after the second the node is gone."""
    clipped = clip(way, start_s, stop_s)
    for waypoint in clipped:
        rows.add(name, *waypoint)
    if stop_s < math.inf:
        rows.gone(name, stop_s)


def clip(way: list[tuple[float, float, float]], start_s: float, stop_s: float) -> list[tuple[float, float, float]]:
    """The part of a way between two times; its last position is held."""

    def at(t: float) -> tuple[float, float, float]:
        before = [w for w in way if w[0] <= t]
        after = [w for w in way if w[0] > t]
        if not before or not after:
            return (t, *(before[-1] if before else after[0])[1:])
        (t1, x1, y1), (t2, x2, y2) = before[-1], after[0]
        share = (t - t1) / (t2 - t1)
        return t, x1 + share * (x2 - x1), y1 + share * (y2 - y1)

    inside = [w for w in way if start_s <= w[0] <= stop_s]
    if start_s > -math.inf and (not inside or inside[0][0] > start_s):
        inside.insert(0, at(max(start_s, way[0][0])))
    if stop_s < math.inf and inside[-1][0] < stop_s:
        inside.append(at(stop_s))
    return inside


def write_setdest(path: Path, trace: Trace) -> None:
    """Nodes are numbered from 0; whoever comes later stands where it will come, whoever is gone where it was."""
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
