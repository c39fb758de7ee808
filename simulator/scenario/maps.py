"""Maps that a scenario names: GeoJSON files whose shapes become its terrain, roads and routes.

All maps of a scenario in degrees have one origin, so that they fit each other: `terrain.origin`, or the south-west
corner of all that is used of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fedmule.mobility.projection import Origin
from fedmule.simulator.errors import Problem
from fedmule.simulator.scenario.geojson import BadMap, MapContent, counted
from fedmule.simulator.scenario.keys import LonLat, Part, PositiveSpan
from fedmule.simulator.scenario.map_files import (
    KINDS,
    Map,
    MapKeys,
    check_extent,
    keys_beside,
    load_map,
    tables_of_polygons,
)
from fedmule.simulator.scenario.messages import problems_of
from fedmule.simulator.scenario.mobility import RoadKeys
from fedmule.simulator.scenario.raw_tables import mobility_tables, vehicle_tables
from fedmule.simulator.scenario.terrain import JammingZone, Obstacle, Surface, Terrain
from fedmule.simulator.scenario.vehicle import RouteKeys

SHAPES: dict[str, type[Part]] = {"obstacles": Obstacle, "surfaces": Surface, "jamming_zones": JammingZone}


@dataclass(frozen=True)
class _Entry:
    """A table of a scenario that names a map."""

    at: str  # its dotted key
    given: dict[str, Any]
    becomes: type[Part]
    holds: str  # the key of that part which the shapes become
    put: Callable[[Any], None]  # puts a value in its place; an empty one takes it out


def expand_maps(raw: dict[str, Any], folder: Path) -> tuple[list[Problem], list[str]]:
    """Replace the maps in a scenario as read by their shapes; returns the problems, and notes on what was used."""
    problems: list[Problem] = []
    contents: dict[Path, MapContent] = {}
    maps: list[tuple[_Entry, Map]] = []
    for entry in list(_entries(raw)):
        try:
            keys = keys_beside(entry.becomes, entry.holds).model_validate(entry.given)
            maps.append((entry, load_map(keys, KINDS[entry.holds], folder, contents)))
        except (BadMap, ValidationError) as error:
            problems += _refuse(entry, error)
    if not maps:
        return problems, []
    size_m, notes = _place(raw, maps, problems)
    for entry, loaded in maps:
        try:
            result, used = _result(entry, loaded, size_m)
            entry.put(result)
            notes += _note(entry, loaded, used)
        except BadMap as error:
            problems += _refuse(entry, error)
    return problems, notes


def _refuse(entry: _Entry, error: BadMap | ValidationError) -> list[Problem]:
    """Take a map out of the scenario; returns the problems with it."""
    entry.put([])
    if isinstance(error, BadMap):
        return [Problem(f"{entry.at}.{error.key}", str(error), entry.given.get(error.key))]
    found = problems_of(error, keys_beside(entry.becomes, entry.holds))
    return [Problem(f"{entry.at}.{p.key}".rstrip("."), p.message, p.value) for p in found]


# --- where a scenario names maps ------------------------------------------------------------------------------


def _entries(raw: dict[str, Any]) -> Iterator[_Entry]:
    for at, table in {"vehicle": raw.get("vehicle"), **mobility_tables(raw)}.items():
        yield from _in_key(table, at, "roads", RoadKeys, "lines")
    for at, table in vehicle_tables(raw).items():
        yield from _in_key(table, at, "route", RouteKeys, "points")
    terrain = raw.get("terrain")
    if isinstance(terrain, dict):
        for name, becomes in SHAPES.items():
            yield from _in_list(terrain, name, becomes)


def _in_key(table: Any, at: str, name: str, becomes: type[Part], holds: str) -> Iterator[_Entry]:
    given = _as_map(table.get(name)) if isinstance(table, dict) else None
    if given is None:
        return

    def put(result: Any) -> None:
        table.pop(name)
        if result:
            table[name] = result

    yield _Entry(f"{at}.{name}", given, becomes, holds, put)


def _in_list(terrain: dict[str, Any], name: str, becomes: type[Part]) -> Iterator[_Entry]:
    """The maps among the entries of a list; one entry may stand without a list."""
    if isinstance(terrain.get(name), (str, dict)):
        terrain[name] = [terrain[name]]
    entries = terrain.get(name)
    slots = [[entry] for entry in entries] if isinstance(entries, list) else []
    for i, given in enumerate([_as_map(entry) for (entry,) in slots]):
        if given is None:
            continue

        def put(shapes: Any, i: int = i) -> None:
            slots[i] = shapes
            terrain[name] = [shape for slot in slots for shape in slot]

        yield _Entry(f"terrain.{name}[{i}]", given, becomes, "polygon", put)


def _as_map(entry: Any) -> dict[str, Any] | None:
    """A table that names a file, for which the file's name alone is short; None for anything else."""
    entry = {"geojson": entry} if isinstance(entry, str) else entry
    return entry if isinstance(entry, dict) and "geojson" in entry else None


# --- from degrees to the terrain ------------------------------------------------------------------------------


def _place(raw: dict[str, Any], maps: list[tuple[_Entry, Map]], problems: list[Problem]) -> tuple[Any, list[str]]:
    """Convert all maps to metres; returns the terrain's size, by default that of its maps in degrees, and notes."""
    terrain = raw.setdefault("terrain", {})
    default = Terrain.model_fields["size_m"].default
    if not isinstance(terrain, dict):
        return default, []  # reported with the other keys
    origin: Origin | None = _valid(LonLat, terrain.get("origin"))
    in_degrees = [(entry, loaded) for entry, loaded in maps if loaded.degrees]
    if "origin" not in terrain and in_degrees:
        origin = _origin(in_degrees, problems)
        if origin is not None:
            terrain["origin"] = list(origin)
    for _, loaded in maps:
        loaded.convert(origin)
    if "size_m" in terrain or not in_degrees:
        return _valid(PositiveSpan, terrain.get("size_m", default)), []
    corners = [loaded.extent[2:] for _, loaded in in_degrees]
    width, height = (float(math.ceil(max(values))) for values in zip(*corners, strict=True))
    if min(width, height) <= 0:
        message = f"must be given: its maps go only as far as ({width:g}, {height:g}) m; see also terrain.origin"
        problems.append(Problem("terrain.size_m", message))
        return None, []
    terrain["size_m"] = [width, height]
    corner = f"; (0, 0) is at [{origin[0]:.6f}, {origin[1]:.6f}]" if origin else ""
    return (width, height), [f"terrain: {width:g} × {height:g} m, as large as its maps{corner}"]


def _valid(kind: Any, value: Any) -> Any:
    """A value if it is of a kind; otherwise None, and it is reported with the other keys."""
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError:
        return None


def _origin(maps: list[tuple[_Entry, Map]], problems: list[Problem]) -> Origin | None:
    """The origin that maps in degrees have in common: the one they give, or the south-west corner of those without."""
    own = {loaded.keys.origin for _, loaded in maps}
    if None not in own:
        return own.pop() if len(own) == 1 else None
    (first, together), *others = [(entry, loaded.extent) for entry, loaded in maps if loaded.keys.origin is None]
    for entry, (west, south, east, north) in others:
        wider = min(west, together[0]), min(south, together[1]), max(east, together[2]), max(north, together[3])
        try:
            check_extent(wider, f"with {first.at} it")
            together = wider
        except BadMap as error:
            problems.append(Problem(f"{entry.at}.geojson", str(error), entry.given["geojson"]))
    return together[:2]


# --- into the scenario ----------------------------------------------------------------------------------------


def _result(entry: _Entry, loaded: Map, size_m: Any) -> tuple[Any, int]:
    """What a map becomes, a list of tables of polygons or a table of lines or of points, and of how many shapes."""
    given = {name: value for name, value in entry.given.items() if name not in MapKeys.model_fields}
    if loaded.kind == "polygon":
        tables = tables_of_polygons(loaded, entry.becomes, given, size_m)
        return tables, len(tables)
    lines = [rings[0] for _, rings in loaded.selection.shapes]
    if entry.holds == "lines":
        return given | {"lines": lines}, len(lines)
    if len(lines) > 1:
        raise BadMap(f"must hold one line, not {len(lines)}")
    return given | {"points": lines[0]}, 1


def _note(entry: _Entry, loaded: Map, used: int) -> list[str]:
    """What was used of a file of which something was skipped."""
    skipped = loaded.selection.skipped
    if not skipped:
        return []
    taken = f"used {counted({loaded.kind: used})} of {loaded.path.name}"
    return [f"{entry.at}: {taken}, skipped {skipped.total()}: {counted(skipped)}"]
