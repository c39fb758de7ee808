"""ns-2 movement scripts: start positions, and orders to go straight to a position at a speed."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedmule.mobility.traces.formats.files import PACKED, number, open_text, written, wrong
from fedmule.mobility.traces.formats.presence import add_while_present, first_file, stays_of
from fedmule.mobility.traces.trace import Rows, Trace, TraceError

NUMBER = r"(\S+?)"
AT = rf'^\$ns_\s+at\s+{NUMBER}\s+"'
NAME = r"\(([^()$\s]+)\)"  # a number, or with SUMO's --orig-ids the vehicle's own
NODE = rf"\$node_{NAME}\s+"
SETDEST = re.compile(rf'{AT}{NODE}setdest\s+{NUMBER}\s+{NUMBER}\s+{NUMBER}\s*"')
FIRST = re.compile(rf"^{NODE}set\s+([XYZ])_\s+{NUMBER}\s*$")
ACTIVITY = re.compile(rf'{AT}\$g{NAME}\s+(start|stop)\s*"')
OTHER = re.compile(r'^(#|set\s|append\s|puts\s|\$god_|\$ns_\s+at\s+\S+\s+"\$god_)')
MOVES = (
    "mobility",
    "movements",
    "setdest",
)  # words in names of scripts, in whose place an activity script says activity


@dataclass
class _Node:
    """The lines of a script about one node."""

    position: dict[str, float] = field(default_factory=dict)
    line: int = 0
    orders: list[tuple[float, float, float, float]] = field(default_factory=list)  # time, to x, to y, speed
    presence: list[tuple[float, bool]] = field(default_factory=list)  # times at which it comes (True) or goes


def read_setdest(path: Path) -> Trace:
    """Read a script; nodes are present from time 0, or between `$g(i) start` and `stop` of SUMO's activity script.

    Those lines stand in the script itself, or in an activity script beside it (see `activity_setdest`).
    """
    nodes: dict[str, _Node] = {}
    unfinished = _read_script(path, nodes)
    if not nodes:
        raise TraceError(f"{path}: contains no node")
    if not any(node.position or node.orders for node in nodes.values()):
        message = (
            "says when nodes start and stop but not where they are: it is an activity script of SUMO's traceExporter"
        )
        raise TraceError(
            f"{path}: {message}. Give the script of --ns2mobility-output; this one is read with it if both lie in one "
            "folder and are named alike, such as mobility.tcl and activity.tcl"
        )
    if beside := activity_setdest(path):
        activity: dict[str, _Node] = {}
        unfinished |= _read_script(beside, activity)
        for name in nodes.keys() & activity.keys():
            nodes[name].presence += activity[name].presence
    rows = Rows()
    for name, node in nodes.items():
        if not {"X", "Y"} <= set(node.position):
            raise wrong(path, node.line, f"the start position of node {name} is missing", "set X_, set Y_")
        _play(rows, name, node)
    return replace(rows.trace(), unfinished=unfinished)


def activity_setdest(path: Path) -> Path | None:
    """Find the activity script beside a script: activity.tcl beside mobility.tcl, a.activity.tcl beside a.tcl."""
    plain = path.with_suffix("") if path.suffix in PACKED else path
    names = [plain.name.replace(word, "activity") for word in MOVES if word in plain.name]
    names += [f"{plain.stem}{joint}activity{plain.suffix}" for joint in "._-"]
    return first_file(plain.with_name(name) for name in names)


def _read_script(path: Path, nodes: dict[str, _Node]) -> bool:
    """Collect what a script says of each node; returns whether it is truncated."""
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
                node.presence.append((number(path, line, "the time", t), what == "start"))
            elif not raw.endswith("\n") and text.startswith("$") and text.count('"') < 2 and nodes:
                unfinished = True  # the last line is truncated
            else:
                raise wrong(path, line, "is neither a start position nor setdest", text)
    return unfinished


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
    add_while_present(rows, name, path, stays_of(node.presence))


def write_setdest(path: Path, trace: Trace) -> None:
    """Write a script; nodes are numbered from 0 and, while absent, stand at their next or last position."""
    with written(path) as file:
        for i in range(len(trace)):
            t, x, y = (column[trace.first[i] : trace.first[i + 1]] for column in (trace.t, trace.x, trace.y))
            here = x == x
            if not here.any():
                continue  # never present
            t, x, y = (column[here].tolist() for column in (t - trace.begin_s, x, y))
            lines = [f"$node_({i}) set X_ {x[0]!r}", f"$node_({i}) set Y_ {y[0]!r}", f"$node_({i}) set Z_ 0.0"]
            for k in range(1, len(t)):
                distance, seconds = math.hypot(x[k] - x[k - 1], y[k] - y[k - 1]), t[k] - t[k - 1]
                if distance > 0:
                    speed = distance / seconds if seconds > 0 else 1e9  # a jump
                    lines.append(f'$ns_ at {t[k - 1]!r} "$node_({i}) setdest {x[k]!r} {y[k]!r} {speed!r}"')
            file.write(("\n".join(lines) + "\n").encode())
