"""GeoJSON files as other programs write them: all kinds of features in one file, of which some are used."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedmule.mobility.traces.formats.files import UNREADABLE, one_line, open_binary, plain_suffix

Ring = list[list[float]]  # [[x, y], …], also of a line
Where = Mapping[str, str | tuple[str, ...]]  # values allowed for each tag

ANY = "*"  # in `where`, any value but "no"
SIMPLE = {"Point": "point", "LineString": "line", "Polygon": "polygon"}
OSM = (
    "is OpenStreetMap data but not GeoJSON: convert it, for example with osmtogeojson, or export it as GeoJSON from "
    "overpass-turbo or QGIS"
)
TAGS_SHOWN = 8


class BadMap(Exception):
    """A map cannot be used; `key` is the key of its table that is to blame."""

    def __init__(self, message: str, key: str = "geojson") -> None:
        self.key = key
        super().__init__(message)


@dataclass(frozen=True)
class Feature:
    """A feature of a file: its tags, and its geometries by their kind (point, line or polygon)."""

    number: int  # its place in the file
    tags: Mapping[str, Any]
    geometries: tuple[tuple[str, Any], ...]

    def matches(self, where: Where) -> bool:
        """Whether its tags have the values asked for."""
        return all(_allowed(self.tags.get(tag), values) for tag, values in where.items())


@dataclass(frozen=True)
class MapContent:
    """The features of a file, and the coordinate system it names: "" for none, which means degrees."""

    features: tuple[Feature, ...]
    crs: str


@dataclass
class Selection:
    """The shapes taken from a file, each with its feature and its rings (one for a line), and what was left out."""

    shapes: list[tuple[Feature, list[Ring]]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)  # features, by why or what they are


def read_map(path: Path) -> MapContent:
    """Read a file, compressed or not."""
    if plain_suffix(path) in (".osm", ".pbf"):
        raise BadMap(f"{path} {OSM}")
    try:
        with open_binary(path) as file:
            data = file.read()
    except UNREADABLE as error:
        raise BadMap(f"{path} cannot be read: {one_line(getattr(error, 'strerror', None) or error)}") from None
    try:
        text = data.decode("utf-8-sig")
        content = None if text.lstrip().startswith("<") else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadMap(f"{path} is not GeoJSON: {error}") from None
    if content is None:
        raise BadMap(f"{path} {OSM if '<osm' in text[:1000] else 'is XML, not GeoJSON'}")
    if not isinstance(content, dict):
        raise BadMap(f"{path} is not GeoJSON: it must be an object in braces")
    if "elements" in content and "type" not in content:
        raise BadMap(f"{path} {OSM}")
    if content.get("type") == "Topology":
        raise BadMap(f"{path} is TopoJSON: convert it to GeoJSON, for example with topo2geo")
    return MapContent(tuple(_features(path, content)), _crs(content.get("crs")))


def select(path: Path, content: MapContent, kind: str, where: Where) -> Selection:
    """Take the lines or polygons of the features that match; of a feature that matches, a closed line is a polygon too.

    Raises BadMap if there are none.
    """
    selection = Selection()
    for feature in content.features:
        fits = feature.matches(where)
        shapes = list(_shapes(path, feature, kind, close=bool(where))) if fits else []
        selection.shapes += [(feature, rings) for rings in shapes]
        if not shapes:
            kinds = {given for given, _ in feature.geometries}
            what = kind if kind in kinds else next(iter(sorted(kinds)), "")
            other = "other " if what == kind and where else ""
            selection.skipped[f"{other}{what}" if what else "without geometry"] += 1
    if not selection.shapes:
        raise _nothing(path, content, kind, where, selection.skipped)
    return selection


def counted(counts: Mapping[str, int]) -> str:
    """Counts in words: "60 points, 1 other polygon"."""
    return ", ".join(_count(number, what) for what, number in counts.items())


def _count(number: int, what: str) -> str:
    plural = "s" if number != 1 and what.split()[-1] in SIMPLE.values() else ""
    return f"{number} {what}{plural}"


def _nothing(path: Path, content: MapContent, kind: str, where: Where, skipped: Mapping[str, int]) -> BadMap:
    """The error for a file with nothing to use, which says what there is instead."""
    if not where:
        has = f"; it has {counted(skipped)}" if skipped else ""
        return BadMap(f"{path} holds no {kind}{has}")
    wanted = ", ".join(f"{tag} = {json.dumps(value, ensure_ascii=False)}" for tag, value in where.items())
    alike = Counter(given for f in content.features if f.matches(where) for given in {g for g, _ in f.geometries})
    given = (item for f in content.features for item in f.tags.items())
    tags = Counter(tag for tag, value in given if value is not None and not tag.startswith("@"))  # "@id" is no tag
    shown = ", ".join(f"{tag} ({number})" for tag, number in tags.most_common(TAGS_SHOWN))
    has = f"it has {counted(alike)} with that" if alike else f"its tags are {shown}" if shown else "it has no tags"
    return BadMap(f"{path} holds no {kind} with {wanted}; {has}", "where")


def _allowed(value: Any, values: str | tuple[str, ...]) -> bool:
    if value is None:
        return False
    text = str(value).lower() if isinstance(value, bool) else str(value)
    wanted = (values,) if isinstance(values, str) else values
    return text in wanted or (ANY in wanted and text != "no")


# --- parts of a file ------------------------------------------------------------------------------------------


def _features(path: Path, content: dict[str, Any]) -> Iterator[Feature]:
    kind = content.get("type")
    given = [content] if kind == "Feature" else [{"geometry": content}]
    given = content.get("features", []) if kind == "FeatureCollection" else given
    for number, feature in enumerate(given if isinstance(given, list) else [given]):
        try:
            properties = feature.get("properties") or {}
            tags = properties.get("tags")
            tags = {**properties, **tags} if isinstance(tags, dict) else properties
            yield Feature(number, tags, tuple(_simple(feature.get("geometry"))))
        except (TypeError, ValueError, AttributeError, KeyError, RecursionError):
            raise _malformed(path, number) from None


def _simple(geometry: Any) -> Iterator[tuple[str, Any]]:
    """The simple geometries in a geometry, by kind."""
    if geometry is None:  # allowed for a feature without a place
        return
    kind = geometry["type"]
    if kind == "GeometryCollection":
        for inner in geometry["geometries"]:
            yield from _simple(inner)
    elif kind in SIMPLE:
        yield SIMPLE[kind], geometry["coordinates"]
    else:
        single = SIMPLE[kind.removeprefix("Multi")]
        yield from ((single, coordinates) for coordinates in geometry["coordinates"])


def _shapes(path: Path, feature: Feature, kind: str, close: bool) -> Iterator[list[Ring]]:
    """The rings of each polygon of a feature, or its lines; with `close` closed lines are polygons."""
    for given, coordinates in feature.geometries:
        try:
            if given == kind:
                yield [_ring(ring) for ring in coordinates] if kind == "polygon" else [_ring(coordinates, least=2)]
            elif close and kind == "polygon" and given == "line" and coordinates[0] == coordinates[-1]:
                yield [_ring(coordinates)]
        except (TypeError, ValueError, IndexError, OverflowError):
            raise _malformed(path, feature.number) from None


def _ring(positions: Iterable[Any], least: int = 1) -> Ring:
    ring = [[float(position[0] + 0.0), float(position[1] + 0.0)] for position in positions]
    if len(ring) < least or not all(math.isfinite(value) for position in ring for value in position):
        raise ValueError("too short, or not finite")
    return ring


def _malformed(path: Path, number: int) -> BadMap:
    return BadMap(f"{path}: feature {number} is not a well-formed GeoJSON feature")


def _crs(given: Any) -> str:
    """The name of a coordinate system, which GeoJSON had before RFC 7946."""
    if not given:
        return ""
    properties = given.get("properties") if isinstance(given, dict) else None
    named = properties if isinstance(properties, dict) else {}
    return str(named.get("name") or named.get("href") or given)
