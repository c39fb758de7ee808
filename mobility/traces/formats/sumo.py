"""SUMO floating car data: an XML file with the vehicles and persons of every time step."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

import numpy as np

from fedmule.mobility.projection import Origin, Projection, crosses_date_line
from fedmule.mobility.traces.formats.files import CUT_OFF, number, open_binary, written, wrong, xml_error
from fedmule.mobility.traces.trace import Rows, Trace, TraceError, samples

MOVING = ("vehicle", "person", "container")
GEO = re.compile(r"""<fcd-output\.geo\s+value\s*=\s*["'](true|1|yes|on)["']""", re.IGNORECASE)
NEAR_DEGREES = 5.0  # a trace this near to its origin on both axes is in degrees, not a few steps in metres
STEPS_COMPARED = 1000


def read_fcd(path: Path, origin: Origin | None = None) -> Trace:
    """Read a file; nodes are present from the first step that lists them to the last, except in steps without them.

    The file is read as a stream; a truncated one, such as one that SUMO is still writing, is used as far as it goes.
    Positions are longitudes and latitudes, with (0, 0) at the `origin`, if SUMO's own header says so (fcd-output.geo),
    if nodes would otherwise be a thousand times slower than their speeds say, or if all lie near the given origin;
    otherwise they are metres.
    """
    reader = _Reader(path)
    unfinished = False
    parser = expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CommentHandler = reader.comment
    reader.parser = parser
    with open_binary(path) as file:
        try:
            parser.ParseFile(file)
        except LookupError as error:  # no such encoding
            raise TraceError(f"{path}: is not XML: {error}") from None
        except expat.ExpatError as error:
            if error.code not in CUT_OFF or not len(reader.rows):
                raise xml_error(path, error) from None
            unfinished = True
    trace = replace(reader.trace(), unfinished=unfinished)
    return _in_metres(path, trace, origin) if reader.says_degrees or _in_degrees(trace, reader, origin) else trace


def _in_metres(path: Path, trace: Trace, origin: Origin | None) -> Trace:
    """A trace whose x and y are degrees, in metres from the origin, or from its south-west corner if there is none."""
    west, _, east, _ = trace.bounds
    if crosses_date_line(west, east):
        raise TraceError(f"{path}: crosses the date line: its longitudes go from {west:g} to {east:g}")
    projection = Projection(origin or (float(np.nanmin(trace.x)), float(np.nanmin(trace.y))))
    x, y = projection.to_metres(trace.x, trace.y)
    return replace(trace, x=x, y=y)


def _in_degrees(trace: Trace, reader: _Reader, origin: Origin | None) -> bool:
    """Whether positions must be longitudes and latitudes."""
    low_x, low_y, high_x, high_y = trace.bounds
    if max(-low_x, high_x) > 180 or max(-low_y, high_y) > 90:
        return False
    if reader.claimed_m > max(1000 * reader.moved, 10.0):
        return True
    return origin is not None and all(
        abs(bound - o) < NEAR_DEGREES for bound, o in zip(trace.bounds, origin * 2, strict=True)
    )


class _Reader:
    """Handlers of XML elements that collect the waypoints."""

    def __init__(self, path: Path) -> None:
        self.parser: Any = None
        self.rows = Rows()
        self._path = path
        self._step, self._t, self._is_open = -1, -np.inf, False
        self._seen: dict[str, tuple[int, float]] = {}  # the last step and time of each node
        self._tag: dict[str, str] = {}  # element in which each id was first found
        self.says_degrees = False
        self.claimed_m, self.moved = 0.0, 0.0  # distance covered according to speeds, and to positions
        self._compared, self._positions = 0, dict[str, tuple[float, float]]()

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "timestep":
            t = self._number(attributes, "time")
            if t <= self._t:
                raise wrong(self._path, self.parser.CurrentLineNumber, "the time must be later than the last one", t)
            self._step, self._t, self._is_open = self._step + 1, t, True
        elif tag in MOVING:
            if not self._is_open:
                raise wrong(self._path, self.parser.CurrentLineNumber, "stands outside any timestep", tag)
            node = attributes.get("id")
            if not node:
                raise wrong(self._path, self.parser.CurrentLineNumber, f"a {tag} has no id", attributes)
            node = self._name(tag, node)
            step, t = self._seen.get(node, (-1, 0.0))
            if step == self._step:
                raise wrong(self._path, self.parser.CurrentLineNumber, f"{tag} {node} is listed twice in a timestep", t)
            if 0 <= step < self._step - 1:
                self.rows.gone(node, t)
            x, y = self._number(attributes, "x"), self._number(attributes, "y")
            self.rows.add(node, self._t, x, y)
            if self._compared < STEPS_COMPARED:
                self._compare(node, self._t - t, x, y, attributes)
            self._seen[node] = self._step, self._t

    def _name(self, tag: str, given: str) -> str:
        """Name of a node; a person with the id of a vehicle, for example, is a different node."""
        return given if self._tag.setdefault(given, tag) == tag else f"{tag} {given}"

    def comment(self, text: str) -> None:
        """Look for the coordinate system in the configuration, which SUMO writes before the data."""
        self.says_degrees |= GEO.search(text) is not None

    def _compare(self, node: str, seconds: float, x: float, y: float, attributes: dict[str, str]) -> None:
        """Add the distance of a node's step, according to its speed and to its positions."""
        if node in self._positions and "speed" in attributes:
            self.claimed_m += self._number(attributes, "speed") * seconds
            self.moved += math.dist(self._positions[node], (x, y))
            self._compared += 1
        self._positions[node] = x, y

    def end(self, tag: str) -> None:
        if tag == "timestep":
            self._is_open = False

    def trace(self) -> Trace:
        if not len(self.rows):
            raise TraceError(f"{self._path}: contains no vehicle of floating car data (fcd-export)")
        # A node missing from a truncated last step may still be present.
        last = self._step - self._is_open
        for node, (step, t) in self._seen.items():
            if step < last:
                self.rows.gone(node, t)
        return self.rows.trace(end_s=self._t)

    def _number(self, attributes: dict[str, str], name: str) -> float:
        line = self.parser.CurrentLineNumber
        if name not in attributes:
            raise wrong(self._path, line, f"has no {name}", attributes)
        return number(self._path, line, name, attributes[name])


def write_fcd(path: Path, trace: Trace, step_s: float) -> None:
    """Write a file with time steps `step_s` apart, in metres."""
    names = [quoteattr(name) for name in trace.names]
    with written(path) as file:
        file.write(b'<?xml version="1.0" encoding="UTF-8"?>\n<fcd-export>\n')
        for t, x, y in samples(trace, step_s):
            there = np.flatnonzero(~np.isnan(x)).tolist()
            lines = [f'        <vehicle id={names[i]} x="{x[i]:.6f}" y="{y[i]:.6f}"/>\n' for i in there]
            file.write(f'    <timestep time="{t:.6f}">\n{"".join(lines)}    </timestep>\n'.encode())
        file.write(b"</fcd-export>\n")
