"""GPS tracks: GPX and GeoJSON, with longitudes and latitudes converted to metres.

A track's node is present from the first point of each of its segments to the last; where that is the end of the file
its last position is held. Time starts at the earliest point of all, except in files of simulators: where that is in the
first year from 1970 on, times are seconds of their clock and stay as they are.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import escape

import numpy as np

from fedmule.mobility.projection import Origin, Projection, crosses_date_line
from fedmule.mobility.traces.formats.files import number, open_binary, open_text, written, wrong, xml_error
from fedmule.mobility.traces.trace import Rows, Trace, TraceError

SIMULATED_S = 366 * 86400.0  # times before this, counted from 1970, are a simulator's: nobody had GPS then

Point = tuple[float, float, float]  # t, longitude, latitude


def read_gpx(path: Path, origin: Origin | None) -> Trace:
    """Read a GPX file; every track is a node, called by its name if that is unique, otherwise by its number."""
    reader = _Gpx(path)
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler = reader.text
    parser.buffer_text = True
    reader.parser = parser
    with open_binary(path) as file:
        try:
            parser.ParseFile(file)
        except expat.ExpatError as error:
            raise xml_error(path, error) from None
    return _in_metres(path, reader.rows, origin)


class _Gpx:
    """Handlers of XML elements that collect the tracks."""

    def __init__(self, path: Path) -> None:
        self.parser: Any = None
        self.rows = _Degrees()
        self._path = path
        self._inside: list[str] = []
        self._name = ""
        self._segments: list[list[Point]] = []
        self._letters = ""
        self._point: list[float] = []  # longitude and latitude, then the time

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(" ")[2]
        self._inside.append(tag)
        self._letters = ""
        if tag == "trk":
            self._name, self._segments = "", []
        elif tag == "trkseg":
            self._segments.append([])
        elif tag == "trkpt":
            line = self.parser.CurrentLineNumber
            for name in ("lon", "lat"):
                if name not in attributes:
                    raise wrong(self._path, line, f"a trkpt has no {name}", attributes)
            self._point = [number(self._path, line, name, attributes[name]) for name in ("lon", "lat")]

    def text(self, letters: str) -> None:
        self._letters += letters

    def end(self, tag: str) -> None:
        tag = tag.rpartition(" ")[2]
        self._inside.pop()
        parent = self._inside[-1] if self._inside else ""
        line = self.parser.CurrentLineNumber
        if tag == "name" and parent == "trk":
            self._name = self._letters.strip()
        elif tag == "time" and parent == "trkpt":
            try:
                self._point.append(_clock(self._letters.strip()))
            except ValueError:
                raise wrong(self._path, line, "is not a time", self._letters) from None
        elif tag == "trkpt":
            if len(self._point) != 3:
                raise wrong(self._path, line, "a trkpt has no time", self._point)
            lon, lat, t = self._point
            if not self._segments:
                raise wrong(self._path, line, "a trkpt is in no trkseg", self._point)
            self._segments[-1].append((t, lon, lat))
        elif tag == "trk":
            self.rows.add(self._name, self._segments)


def read_geojson(path: Path, origin: Origin | None) -> Trace:
    """Read features with a LineString or MultiLineString and the times of its points, or Points with one time each.

    Times are in the property coordTimes or times (time or timestamp for a Point), as ISO strings or seconds. The
    property node, id or name, or the feature's id, names the node; features of the same node are its segments.
    """
    with open_text(path) as file:
        try:
            content = json.load(file)
        except (ValueError, RecursionError) as error:
            raise TraceError(f"{path}: is not GeoJSON: {error}") from None
    features = content.get("features") if isinstance(content, dict) else None
    if not isinstance(features, list):
        raise TraceError(f"{path}: is not a GeoJSON FeatureCollection")
    rows = _Degrees()
    points: dict[str, list[Point]] = {}
    for count, feature in enumerate(features):
        try:
            properties, geometry = feature.get("properties") or {}, feature["geometry"]
            names = [properties.get(key) for key in ("node", "id", "name")] + [feature.get("id")]
            name = next((str(name) for name in names if name is not None), "")
            kind, positions = geometry["type"], geometry["coordinates"]
            if kind == "Point":
                t = _seconds(next(properties[key] for key in ("time", "timestamp") if key in properties))
                points.setdefault(name, []).append((t, float(positions[0]), float(positions[1])))
            elif kind in ("LineString", "MultiLineString"):
                where = (properties, properties.get("coordinateProperties") or {})
                times = next(p[key] for p in where for key in ("coordTimes", "times") if key in p)
                lines = [(times, positions)] if kind == "LineString" else zip(times, positions, strict=True)
                segments = [
                    [(_seconds(t), float(p[0]), float(p[1])) for t, p in zip(ts, ps, strict=True)] for ts, ps in lines
                ]
                rows.add(name, segments, again=True)
        except StopIteration:
            raise TraceError(f"{path}: feature {count} has no times (coordTimes, or time for a Point)") from None
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise TraceError(f"{path}: feature {count} is not a track with its times: {error}") from None
    for name, segment in points.items():
        rows.add(name, [segment], again=True)
    return _in_metres(path, rows, origin)


class _Degrees:
    """Segments of points (t, longitude, latitude) by node."""

    def __init__(self) -> None:
        self.nodes: dict[str, list[list[Point]]] = {}

    def add(self, name: str, segments: list[list[Point]], again: bool = False) -> None:
        """Add a track; unless names may come `again`, a name already taken is replaced by a number."""
        if not name or (name in self.nodes and not again):
            name = str(len(self.nodes))
        in_order = (sorted(segment, key=_time) for segment in segments if segment)  # jumps keep the file's order
        self.nodes.setdefault(name, []).extend(in_order)


def _time(point: Point) -> float:
    return point[0]


def _in_metres(path: Path, degrees: _Degrees, origin: Origin | None) -> Trace:
    points = [point for segments in degrees.nodes.values() for segment in segments for point in segment]
    if not points:
        raise TraceError(f"{path}: contains no track with times")
    for name, segments in degrees.nodes.items():
        for t, lon, lat in (point for segment in segments for point in segment):
            if not (abs(lon) <= 180 and abs(lat) <= 90 and math.isfinite(t)):
                message = "needs a time, a longitude within ±180 and a latitude within ±90"
                sumo = " (SUMO writes degrees with --fcd-output.geo)" if math.isfinite(lon + lat + t) else ""
                raise TraceError(f"{path}: each point of {name} {message}{sumo}: {t:g}, {lon:g}, {lat:g}")
    (begin_s, west, south), (end_s, east, _) = (list(map(f, zip(*points, strict=True))) for f in (min, max))
    if crosses_date_line(west, east):
        raise TraceError(f"{path}: crosses the date line: its longitudes go from {west:g} to {east:g}")
    if 0 <= begin_s < SIMULATED_S:
        begin_s = 0.0
    projection = Projection(origin or (west, south))
    rows = Rows()
    for name, segments in degrees.nodes.items():
        for segment in sorted(segments, key=lambda segment: segment[0][0]):
            for t, lon, lat in segment:
                rows.add(name, t - begin_s, *projection.to_metres(lon, lat))
            if segment[-1][0] < end_s:
                rows.gone(name, segment[-1][0] - begin_s)
    return rows.trace()


def _clock(text: str) -> float:
    """Seconds since 1970 from the text of a GPX time; SUMO writes plain seconds."""
    try:
        return float(text)
    except ValueError:
        return _seconds(text)


def _seconds(given: Any) -> float:
    """Seconds since 1970 from a number or an ISO string, which is in UTC if it has no zone."""
    if isinstance(given, (int, float)) and not isinstance(given, bool):
        return float(given)
    t = datetime.fromisoformat(given)
    return (t if t.tzinfo else t.replace(tzinfo=UTC)).timestamp()


def _iso(t: float) -> str:
    return datetime.fromtimestamp(t, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _stays(path: Path, trace: Trace, origin: Origin) -> dict[str, list[list[Point]]]:
    """The segments over which each node is present, by its name; nodes that never are have none and are left out.

    Times before 1970 would have no date, so a trace that begins before 0 is written as from 0 on.
    """
    projection = Projection(origin)
    west, south, east, north = trace.bounds
    for lon, lat in (projection.to_degrees(west, south), projection.to_degrees(east, north)):
        if abs(lon) > 180 or abs(lat) > 90:
            message = f"cannot hold it with (0, 0) at {origin[0]:g}, {origin[1]:g}: it would reach"
            raise TraceError(f"{path}: {message} {lon:g}, {lat:g}, beyond the date line or a pole")
    nodes: dict[str, list[list[Point]]] = {}
    for i, name in enumerate(trace.names):
        rows = slice(trace.first[i], trace.first[i + 1])
        t, x, y = trace.t[rows] - min(trace.begin_s, 0.0), trace.x[rows], trace.y[rows]
        there = ~np.isnan(x)
        comes = np.flatnonzero(there & ~np.append(False, there[:-1]))
        goes = np.flatnonzero(there & ~np.append(there[1:], False)) + 1  # the row that says so, if there is one
        until = np.append(t, trace.end_s - min(trace.begin_s, 0.0))
        degrees = np.stack([t, *projection.to_degrees(x, y)], axis=1)
        for first, gone in zip(comes, goes, strict=True):
            stay = [tuple(point) for point in degrees[first:gone].tolist()]
            if until[gone] > stay[-1][0] or len(stay) == 1:  # it stays at its last position; a line has two points
                stay.append((float(until[gone]), *stay[-1][1:]))
            nodes.setdefault(name, []).append(stay)
    return nodes


def write_gpx(path: Path, trace: Trace, origin: Origin) -> None:
    """Write a GPX file: one track per node, one segment per stay."""
    with written(path) as file:
        file.write(b'<?xml version="1.0" encoding="UTF-8"?>\n')
        file.write(b'<gpx version="1.1" creator="Fedmule" xmlns="http://www.topografix.com/GPX/1/1">\n')
        for name, stays in _stays(path, trace, origin).items():
            lines = [f"<trk><name>{escape(name)}</name>"]
            for stay in stays:
                points = [f'<trkpt lat="{lat!r}" lon="{lon!r}"><time>{_iso(t)}</time></trkpt>' for t, lon, lat in stay]
                lines += ["<trkseg>", *points, "</trkseg>"]
            file.write(("\n".join([*lines, "</trk>"]) + "\n").encode())
        file.write(b"</gpx>\n")


def write_geojson(path: Path, trace: Trace, origin: Origin) -> None:
    """Write a GeoJSON file: one MultiLineString per node, one line per stay."""
    features = []
    for name, stays in _stays(path, trace, origin).items():
        geometry = {"type": "MultiLineString", "coordinates": [[[lon, lat] for _, lon, lat in stay] for stay in stays]}
        properties = {"node": name, "coordTimes": [[_iso(t) for t, _, _ in stay] for stay in stays]}
        features.append({"type": "Feature", "properties": properties, "geometry": geometry})
    with written(path) as file:
        file.write(json.dumps({"type": "FeatureCollection", "features": features}).encode())
