"""SUMO's floating car data: an XML file with a list of vehicles and persons for every time step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

import numpy as np

from mobility.formats.files import number, open_binary, wrong
from mobility.traces import Rows, Trace, TraceError, samples

MOVING = ("vehicle", "person", "container")
UNFINISHED = expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS]


def read_fcd(path: Path) -> Trace:
    """Nodes are there from the first step that lists them to the last; a step without them in between is a gap.

    The file is read as a stream. One that breaks off, as while SUMO still writes it, counts up to there.
    """
    reader = _Reader(path)
    unfinished = False
    parser = expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    reader.parser = parser
    with open_binary(path) as file:
        try:
            parser.ParseFile(file)
        except expat.ExpatError as error:
            if error.code != UNFINISHED or not len(reader.rows):
                raise TraceError(f"{path}, line {error.lineno}: is not XML: {expat.ErrorString(error.code)}") from None
            unfinished = True
    return replace(reader.trace(), unfinished=unfinished)


class _Reader:
    def __init__(self, path: Path) -> None:
        self.parser: Any = None
        self.rows = Rows()
        self._path = path
        self._step, self._t, self._is_open = -1, -np.inf, False
        self._seen: dict[str, tuple[int, float]] = {}  # the last step and time of each node

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "timestep":
            t = self._number(attributes, "time")
            if t <= self._t:
                raise wrong(self._path, self.parser.CurrentLineNumber, "the time must be later than the last", t)
            self._step, self._t, self._is_open = self._step + 1, t, True
        elif tag in MOVING:
            if not self._is_open:
                raise wrong(self._path, self.parser.CurrentLineNumber, "stands outside any timestep", tag)
            node = attributes.get("id")
            if not node:
                raise wrong(self._path, self.parser.CurrentLineNumber, f"a {tag} has no id", attributes)
            step, t = self._seen.get(node, (self._step, 0.0))
            if step < self._step - 1:
                self.rows.gone(node, t)
            self.rows.add(node, self._t, self._number(attributes, "x"), self._number(attributes, "y"))
            self._seen[node] = self._step, self._t

    def end(self, tag: str) -> None:
        if tag == "timestep":
            self._is_open = False

    def trace(self) -> Trace:
        if not len(self.rows):
            raise TraceError(f"{self._path}: holds no vehicle of floating car data (fcd-export)")
        # Who is missing from a last step that breaks off may still be there.
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
    names = [quoteattr(name) for name in trace.names]
    with open_binary(path, "wb") as file:
        file.write(b'<?xml version="1.0" encoding="UTF-8"?>\n<fcd-export>\n')
        for t, x, y in samples(trace, step_s):
            there = np.flatnonzero(~np.isnan(x)).tolist()
            lines = [f'        <vehicle id={names[i]} x="{x[i]:.6f}" y="{y[i]:.6f}"/>\n' for i in there]
            file.write(f'    <timestep time="{t:.6f}">\n{"".join(lines)}    </timestep>\n'.encode())
        file.write(b"</fcd-export>\n")
