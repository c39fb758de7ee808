"""Trace files: recognise their format, read them and write them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from fedmule.mobility.traces.formats.files import UNREADABLE, one_line, open_text, plain_suffix
from fedmule.mobility.traces.trace import Trace, TraceError


@dataclass(frozen=True)
class Format:
    """A trace format; `module` is 'module:name' of its functions read_name and write_name, loaded only when used."""

    name: str
    module: str
    suffixes: tuple[str, ...]
    samples: bool = False  # holds positions at regular times, so a writer must interpolate between waypoints
    degrees: bool = False  # holds longitude and latitude
    perhaps_degrees: bool = False  # may hold them when read; is written in metres
    absence: bool = False  # can represent absent nodes
    activity: bool = False  # may have a file beside it that says when nodes are present

    def function(self, does: str) -> Callable[..., Any]:
        """Import the function that does this: "read", "write", or "activity" to find that file."""
        module, _, ending = self.module.partition(":")
        function: Callable[..., Any] = getattr(import_module(f"{__name__}.{module}"), f"{does}_{ending}")
        return function


FORMATS = (
    Format("CSV", "tables:csv", (".csv",), absence=True),
    Format("Parquet", "tables:parquet", (".parquet",), absence=True),
    Format("SUMO FCD", "sumo:fcd", (".xml",), samples=True, perhaps_degrees=True, absence=True),
    Format("ns-2 setdest", "ns2:setdest", (".ns_movements", ".tcl", ".ns2"), activity=True),
    Format("BonnMotion", "bonnmotion:movements", (".movements",)),
    Format("The ONE external movement", "the_one:movement", (".one", ".txt"), samples=True),
    Format("The ONE external path", "the_one:paths", (".path",), activity=True),
    Format("GPX", "gps:gpx", (".gpx",), degrees=True, absence=True),
    Format("GeoJSON", "gps:geojson", (".geojson", ".json"), degrees=True, absence=True),
)

Origin = tuple[float, float] | None
MOST_M, MOST_S = 1e9, 1e11


def read_trace(path: str | Path, origin: Origin = None, partial: bool = False) -> Trace:
    """Read the trace in a file, which may be compressed (.gz, .xz, .bz2).

    `origin` is the longitude and latitude of (0, 0) if the file holds degrees; by default the south-west corner. A file
    that is truncated is refused unless `partial`.
    """
    file = Path(path)
    if not file.is_file():
        raise TraceError(f"{file}: is not a file" if file.exists() else f"{file}: no such file")
    if plain_suffix(file) == ".act":
        message = "is an activity file of The ONE, which says when nodes are present but not where"
        raise TraceError(
            f"{file}: {message}; give the file of paths, and this one is read if it lies beside it as .act"
        )
    try:
        kind = _kind(file)
        read = kind.function("read")
        trace: Trace = read(file, origin) if kind.degrees or kind.perhaps_degrees else read(file)
    except UNREADABLE as error:  # for example, a damaged archive
        raise TraceError(f"{file}: cannot be read: {one_line(getattr(error, 'strerror', None) or error)}") from None
    _check(file, trace)
    if trace.unfinished and not partial:
        raise TraceError(f"{file}: is truncated; fedmule trace {file} --partial --out FILE keeps what is there")
    return trace


def activity_file(path: str | Path) -> Path | None:
    """Find the file beside a trace that says when its nodes are present, if there is one."""
    try:
        kind = _kind(Path(path))
        found: Path | None = kind.function("activity")(Path(path)) if kind.activity else None
        return found
    except (TraceError, *UNREADABLE):  # a file that cannot be read is reported when it is
        return None


def _kind(path: Path) -> Format:
    """Format of a file, by its suffix or its first line."""
    return (None if plain_suffix(path) == ".txt" else format_of(path)) or _sniffed(path)


def _check(path: Path, trace: Trace) -> None:
    """Refuse a trace without positions, with undecodable names, or with numbers too large for seconds or metres."""
    unread = next((name for name in trace.names if "\ufffd" in name), None)
    if unread is not None:
        raise TraceError(f"{path}: is not UTF-8: it has a node {one_line(unread)}")
    if np.isnan(trace.x).all():
        raise TraceError(f"{path}: contains no position: all nodes are absent all the time")
    for name, values, most, unit in (
        ("t", trace.t, MOST_S, "s"),
        ("x", trace.x, MOST_M, "m"),
        ("y", trace.y, MOST_M, "m"),
    ):
        k = int(np.nanargmax(np.abs(values)))
        if abs(values[k]) > most:
            node = trace.names[trace.node[k]]
            raise TraceError(f"{path}: {name} of node {node} must be within ±{most:g} {unit}: {values[k]:g}")


def writer(path: str | Path, step_s: float = 1.0, origin: Origin = None) -> tuple[Format, Callable[[Trace], None]]:
    """Return the format for a file's suffix, and a function that writes a trace to the file.

    If the format holds samples, they are `step_s` apart. `origin` is as for reading; by default 0° E, 0° N.
    """
    file = Path(path)
    kind = format_of(file)
    if kind is None:
        known = ", ".join(f"{format_.suffixes[0]} ({format_.name})" for format_ in FORMATS)
        raise TraceError(f"{file}: its suffix must be one of {known}")
    write = kind.function("write")
    if kind.samples:
        write = partial(write, step_s=step_s)
    if kind.degrees:
        write = partial(write, origin=origin or (0.0, 0.0))
    return kind, partial(write, file)


def format_of(path: Path) -> Format | None:
    """Format for a file's suffix; None if no trace format has it."""
    return next((kind for kind in FORMATS if plain_suffix(path) in kind.suffixes), None)


def _sniffed(path: Path) -> Format:
    """Format recognised by the file's first line."""
    with open_text(path) as file:
        line = next((line.strip() for line in file if line.strip() and not line.startswith("#")), "")
    by_name = {kind.name: kind for kind in FORMATS}
    fields = line.split()
    if line.startswith(("$node_", "$ns_")):
        return by_name["ns-2 setdest"]
    if line.startswith("<"):
        return by_name["GPX" if "<gpx" in line else "SUMO FCD"]
    if {"node", "t", "x", "y"} <= set(line.split(",")):
        return by_name["CSV"]
    if len(fields) in (6, 8) and _numbers(fields):
        return by_name["The ONE external movement"]
    if len(fields) == 7 and _numbers(fields):
        return by_name["The ONE external path"]
    if len(fields) >= 3 and len(fields) % 3 == 0 and _numbers(fields):
        return by_name["BonnMotion"]
    raise TraceError(f"{path}: is in none of the formats {', '.join(by_name)}")


def _numbers(fields: list[str]) -> bool:
    try:
        return bool([float(field) for field in fields])
    except ValueError:
        return False
