"""Terrain, roads and routes from GeoJSON files, expanded into the scenario's own tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedmule.mobility.projection import Projection
from fedmule.simulator.errors import Problem

SHAPE_KEYS = {
    "obstacles": ("stops_movement", "radio_loss_db", "name"),
    "surfaces": ("speed_factor", "name"),
    "jamming_zones": ("noise_db", "name"),
}
FILE_KEYS = ("geojson", "coordinates", "origin")


def expand_files(raw: dict[str, Any], folder: Path) -> list[Problem]:
    """Replace files of the terrain by their polygons, of roads and routes by their lines; returns the problems.

    A polygon's own properties win over the keys given beside the file.
    """
    problems: list[Problem] = []
    _expand_roads(raw.get("vehicle"), "vehicle", folder, problems)
    for key, mobility in mobility_tables(raw).items():
        _expand_roads(mobility, key, folder, problems)
    for key, vehicle in vehicle_tables(raw).items():
        _expand_route(vehicle, key, folder, problems)
    terrain = raw.get("terrain")
    if not isinstance(terrain, dict):
        return problems
    for name, keys in SHAPE_KEYS.items():
        entries = terrain.get(name)
        if isinstance(entries, (str, dict)):
            entries = [entries]
        if not isinstance(entries, list):
            continue
        shapes: list[Any] = []
        for i, entry in enumerate(entries):
            entry = {"geojson": entry} if isinstance(entry, str) else entry
            if not isinstance(entry, dict) or "geojson" not in entry:
                shapes.append(entry)
                continue
            try:
                shapes.extend(_read(entry, keys, folder))
            except _BadFile as error:
                problems.append(Problem(f"terrain.{name}[{i}].{error.key}", str(error), entry.get(error.key)))
        terrain[name] = shapes
    return problems


def mobility_tables(raw: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The tables of a scenario as read that say how clients or groups of them move, by their dotted keys."""
    clients = raw.get("clients")
    holders = {"clients": clients}
    groups = clients.get("groups") if isinstance(clients, dict) else None
    if isinstance(groups, list):
        holders |= {f"clients.groups[{i}]": group for i, group in enumerate(groups)}
    found = {f"{key}.mobility": holder.get("mobility") for key, holder in holders.items() if isinstance(holder, dict)}
    return {key: mobility for key, mobility in found.items() if isinstance(mobility, dict)}


def vehicle_tables(raw: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The tables of a scenario as read that describe vehicles, by their dotted keys."""
    vehicle = raw.get("vehicle")
    if not isinstance(vehicle, dict):
        return {}
    fleet = vehicle.get("fleet")
    members = enumerate(fleet if isinstance(fleet, list) else [])
    return {"vehicle": vehicle} | {f"vehicle.fleet[{i}]": own for i, own in members if isinstance(own, dict)}


def _expand_route(table: dict[str, Any], name: str, folder: Path, problems: list[Problem]) -> None:
    """Replace the file that a vehicle's `route` names, if it does, by the points of its line."""
    entry = table.get("route")
    entry = {"geojson": entry} if isinstance(entry, str) else entry
    if not isinstance(entry, dict) or "geojson" not in entry:
        return
    try:
        lines = _lines(entry, folder)
        if len(lines) > 1:
            raise _BadFile(f"must hold one line, not {len(lines)}")
        table["route"] = {k: v for k, v in entry.items() if k not in FILE_KEYS} | {"points": lines[0]}
    except _BadFile as error:
        problems.append(Problem(f"{name}.route.{error.key}", str(error), entry.get(error.key)))
        del table["route"]


def _expand_roads(table: Any, name: str, folder: Path, problems: list[Problem]) -> None:
    """Replace the file that a table's `roads` names, if it does, by its lines."""
    entry = table.get("roads") if isinstance(table, dict) else None
    entry = {"geojson": entry} if isinstance(entry, str) else entry
    if not isinstance(entry, dict) or "geojson" not in entry:
        return
    try:
        table["roads"] = {k: v for k, v in entry.items() if k not in FILE_KEYS} | {"lines": _lines(entry, folder)}
    except _BadFile as error:
        problems.append(Problem(f"{name}.roads.{error.key}", str(error), entry.get(error.key)))
        del table["roads"]


class _BadFile(Exception):
    def __init__(self, message: str, key: str = "geojson") -> None:
        self.key = key
        super().__init__(message)


def _read(entry: dict[str, Any], keys: tuple[str, ...], folder: Path) -> list[dict[str, Any]]:
    """Tables of the polygons in a file."""
    given = {k: v for k, v in entry.items() if k not in FILE_KEYS}
    shapes = []
    for feature, rings in _geometries(entry, folder, "Polygon"):
        properties = {k: v for k, v in (feature.get("properties") or {}).items() if k in keys}
        outer, *holes = rings
        shape = {**given, **properties, "polygon": outer}
        shapes.append({**shape, "holes": holes} if holes else shape)
    return shapes


def _lines(entry: dict[str, Any], folder: Path) -> list[Any]:
    """The lines in a file."""
    return [line for _, (line,) in _geometries(entry, folder, "LineString")]


def _geometries(entry: dict[str, Any], folder: Path, kind: str) -> list[tuple[Any, list[Any]]]:
    """Features and, in metres, the rings of each Polygon of theirs, or the line of each LineString."""
    path = folder / str(entry["geojson"])
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _BadFile(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise _BadFile(f"{path} is not GeoJSON: {error}") from None
    to_metres = _projection(entry, content)
    found = []
    for number, feature in enumerate(_features(content)):
        try:
            for part in _parts(feature.get("geometry"), kind):
                rings = part if kind == "Polygon" else [part]
                found.append((feature, [[to_metres(*corner[:2]) for corner in ring] for ring in rings]))
        except _BadFile as error:
            raise _BadFile(f"{path}: feature {number}: {error}") from None
        except (TypeError, ValueError, AttributeError):
            raise _BadFile(f"{path}: feature {number} is not a well-formed GeoJSON feature") from None
    if not found:
        raise _BadFile(f"{path} holds no {'polygon' if kind == 'Polygon' else 'line'}")
    return found


def _features(content: Any) -> list[Any]:
    kind = content.get("type") if isinstance(content, dict) else None
    if kind == "FeatureCollection":
        return list(content.get("features", []))
    return [content] if kind == "Feature" else [{"geometry": content}]


def _parts(geometry: Any, kind: str) -> list[Any]:
    """The coordinates of a geometry of a kind, or of all those of its Multi kind."""
    given = geometry.get("type")
    if given == kind:
        return [geometry["coordinates"]]
    if given == f"Multi{kind}":
        return list(geometry["coordinates"])
    raise _BadFile(f"is a {given}; only {kind} and Multi{kind} can be used")


def _projection(entry: dict[str, Any], content: Any) -> Any:
    """Coordinates as they are, or degrees turned into metres east and north of the origin."""
    coordinates = entry.get("coordinates", "metres")
    crs = str((content.get("crs") or {}) if isinstance(content, dict) else "")
    if coordinates == "metres":
        if "CRS84" in crs or "4326" in crs:
            raise _BadFile('holds degrees; say coordinates = "lonlat" and the origin = [lon, lat] of (0, 0)')
        return lambda x, y: [float(x), float(y)]
    if coordinates != "lonlat":
        raise _BadFile('must be "metres" or "lonlat"', "coordinates")
    origin = entry.get("origin")
    if not (isinstance(origin, list) and len(origin) == 2 and all(isinstance(v, (int, float)) for v in origin)):
        raise _BadFile("must be [lon, lat], the degrees of the terrain's corner (0, 0)", "origin")
    to_metres = Projection((origin[0], origin[1])).to_metres
    return lambda lon, lat: list(to_metres(lon, lat))
