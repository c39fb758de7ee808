"""A map: its keys, the shapes selected from its file, whether these are in degrees, and the polygons they become."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import shapely
from pydantic import Field, ValidationError, create_model

from fedmule.mobility.projection import Projection, crosses_date_line
from fedmule.simulator.scenario.geojson import BadMap, Feature, MapContent, Ring, Selection, counted, read_map, select
from fedmule.simulator.scenario.keys import Part, Point, key
from fedmule.simulator.scenario.messages import problems_of

Extent = tuple[float, float, float, float]  # smallest x and y, largest x and y

MOST_DEGREES = 5.0  # across; a map that seems larger is in metres, or its parts do not belong together
DEGREES = {"CRS84", "CRS83", "4326", "4258", "4269", "4979"}  # how names of coordinate systems in degrees end
CORNERS = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))  # in place of those of a file, to check the keys beside it
KINDS = {"polygon": "polygon", "lines": "line", "points": "line"}  # of shapes, by the key that they become


class MapKeys(Part):
    """Keys of a map, beside those of what it becomes."""

    geojson: str = Field(description="the file, in GeoJSON, relative to the scenario's folder; may be compressed")
    where: dict[str, str | Annotated[tuple[str, ...], Field(strict=False)]] = key(
        {}, 'which of its features, by their tags: { building = "*" } for any value, { highway = ["primary", …] }'
    )
    coordinates: Literal["lonlat", "metres"] | None = key(
        None, "its numbers are longitudes and latitudes in degrees, or metres; by default degrees, as RFC 7946 says"
    )
    origin: Point | None = key(
        None,
        "its own [lon, lat] of (0, 0), by default terrain.origin; in metres its [x, y] of (0, 0), by default [0, 0]",
    )


@cache
def keys_beside(becomes: type[Part], holds: str) -> type[MapKeys]:
    """The keys of a map's table: those of a map, and those of what it becomes except the shapes themselves.

    A key without a default may be missing: the features may have it among their properties.
    """
    fields: dict[str, Any] = {
        name: (field.rebuild_annotation() | None, None)
        for name, field in becomes.model_fields.items()
        if field.is_required()
    }
    shapes = (CORNERS,) if holds == "lines" else CORNERS
    fields[holds] = (becomes.model_fields[holds].rebuild_annotation(), shapes)
    bases: Any = (MapKeys, becomes)
    made: type[MapKeys] = create_model("Map", __base__=bases, **fields)
    return made


@dataclass
class Map:
    """The shapes selected from a file, in its own units until `convert` makes them metres on the terrain."""

    path: Path
    keys: MapKeys
    kind: str  # polygon or line
    degrees: bool
    selection: Selection

    @property
    def extent(self) -> Extent:
        """Extent of all its shapes."""
        x, y = zip(
            *(position for _, rings in self.selection.shapes for ring in rings for position in ring), strict=True
        )
        return min(x), min(y), max(x), max(y)

    def convert(self, origin: tuple[float, float] | None) -> None:
        """Convert its shapes to metres from its own origin, or from this one."""
        own = self.keys.origin
        projection = Projection(own or origin or self.extent[:2])
        x0, y0 = own or (0.0, 0.0)

        def metres(x: float, y: float) -> list[float]:
            return list(projection.to_metres(x, y)) if self.degrees else [x - x0, y - y0]

        self.selection.shapes = [
            (feature, [[metres(*position) for position in ring] for ring in rings])
            for feature, rings in self.selection.shapes
        ]


def load_map(keys: MapKeys, kind: str, folder: Path, contents: dict[Path, MapContent]) -> Map:
    """Read a map's file, unless its content is known, and select its shapes. Raises BadMap."""
    path = folder / keys.geojson
    if path not in contents:
        contents[path] = read_map(path)
    degrees = _holds_degrees(path, keys, contents[path].crs)
    loaded = Map(path, keys, kind, degrees, select(path, contents[path], kind, keys.where))
    if degrees:
        _check_degrees(loaded)
    return loaded


def _holds_degrees(path: Path, keys: MapKeys, crs: str) -> bool:
    says_degrees = crs.replace("/", ":").rpartition(":")[2] in DEGREES
    if keys.coordinates == "metres":
        if says_degrees:
            raise BadMap(f'must be "lonlat", or left out: {path} holds degrees, as its crs {crs} says', "coordinates")
        return False
    if keys.coordinates is None and crs and not says_degrees:
        raise BadMap(
            f'{path} is in the coordinate system {crs}: say coordinates = "metres" if that counts metres, and origin = '
            "[x, y] of (0, 0); or export it in degrees (WGS 84, EPSG:4326)"
        )
    return True


def _check_degrees(loaded: Map) -> None:
    for feature, rings in loaded.selection.shapes:
        for lon, lat in (position for ring in rings for position in ring):
            if not _on_earth(lon, lat):
                raise BadMap(
                    f"{loaded.path}: feature {feature.number} has a position [{lon:g}, {lat:g}], which is no longitude "
                    'and latitude in degrees; if it is in metres, say coordinates = "metres"'
                )
    check_extent(loaded.extent, str(loaded.path))
    if loaded.keys.origin is not None and not _on_earth(*loaded.keys.origin):
        raise BadMap("must be [lon, lat], the degrees of the terrain's corner (0, 0)", "origin")


def _on_earth(lon: float, lat: float) -> bool:
    return abs(lon) <= 180 and abs(lat) < 90


def check_extent(extent: Extent, what: str) -> None:
    """Raise BadMap if positions in degrees are too far apart for a plane."""
    west, south, east, north = extent
    if crosses_date_line(west, east):
        raise BadMap(
            f"{what} lies across the date line: its longitudes go from {west:g} to {east:g}. Use the part on one side, "
            'or a map in metres with coordinates = "metres"'
        )
    if max(east - west, north - south) > MOST_DEGREES:
        raise BadMap(
            f"{what} is {east - west:g}° × {north - south:g}°, from [{west:g}, {south:g}] to [{east:g}, {north:g}]: "
            f'more than {MOST_DEGREES:g}° are no plane; if it is in metres, say coordinates = "metres"'
        )


# --- polygons -------------------------------------------------------------------------------------------------


def tables_of_polygons(loaded: Map, becomes: type[Part], given: Any, size_m: Any) -> list[dict[str, Any]]:
    """Tables of the polygons of a map in metres that lie on the terrain, in part at least; the others are skipped.

    A polygon's own properties win over the keys given beside the file.
    """
    ground = None if size_m is None else shapely.box(0, 0, *size_m)
    tables: list[dict[str, Any]] = []
    skipped: Counter[str] = Counter()
    for feature, rings in loaded.selection.shapes:
        keys = given | _own_keys(loaded, feature, becomes, given)
        polygons = list(_simple(rings))
        skipped["without area"] += not polygons
        for outer, *holes in polygons:
            if ground is not None and not shapely.intersects(ground, shapely.Polygon(outer)):
                skipped["off the terrain"] += 1
            else:
                tables.append(keys | {"polygon": outer} | ({"holes": holes} if holes else {}))
    skipped = +skipped
    if not tables:
        west, south, east, north = loaded.extent
        lie = f"from ({west:.0f}, {south:.0f}) to ({east:.0f}, {north:.0f}) m; see terrain.size_m and terrain.origin"
        raise BadMap(f"{loaded.path} holds no polygon on the terrain: {counted(skipped)}, {lie}")
    loaded.selection.skipped += skipped
    return tables


def _own_keys(loaded: Map, feature: Feature, becomes: type[Part], given: Any) -> dict[str, Any]:
    """The keys that a feature has among its properties."""
    own = {k: v for k, v in feature.tags.items() if k in becomes.model_fields and v is not None}
    own = {k: str(v) if k == "name" else v for k, v in own.items()}
    try:
        becomes.model_validate(given | own | {"polygon": CORNERS})
    except ValidationError as error:
        problem = problems_of(error, becomes)[0]
        value = "" if problem.value is None else f" = {problem.value!r}"
        message = f"{loaded.path}: feature {feature.number}: {problem.key}{value} {problem.message}"
        raise BadMap(f"{message}; see its properties, or give the key beside the file") from None
    return own


def _simple(rings: list[Ring]) -> Iterator[list[Ring]]:
    """The rings of a polygon; where they touch or cross themselves, of the simple polygons that make up its area."""
    if any(len(ring) < 3 for ring in rings):
        return
    polygon = shapely.Polygon(rings[0], rings[1:])
    if polygon.is_valid:
        if polygon.area > 0:
            yield rings
        return
    for part in shapely.get_parts(shapely.get_parts(shapely.make_valid(polygon))):
        if isinstance(part, shapely.Polygon) and part.area > 0:
            yield [shapely.get_coordinates(ring).tolist() for ring in (part.exterior, *part.interiors)]
