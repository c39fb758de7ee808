"""Keys of the terrain: its size, obstacles, surfaces and jamming zones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import shapely
from pydantic import Field

from fedmule.simulator.errors import Problem
from fedmule.simulator.scenario.keys import LonLat, NotNegative, Part, Positive, Ring, key

if TYPE_CHECKING:
    from fedmule.simulator.scenario import Scenario

Rings = Annotated[tuple[Ring, ...], Field(strict=False)]


class Obstacle(Part):
    polygon: Ring = Field(description="corners [[x, y], …] in metres")
    holes: Rings = key((), "open courts inside it, as rings of corners")
    stops_movement: bool = key(True, "whether vehicle and clients must go round it")
    radio_loss_db: NotNegative = key(0.0, "loss of a radio ray that crosses it, dB")
    name: str = key("", "its name")


class Surface(Part):
    polygon: Ring = Field(description="corners [[x, y], …] in metres")
    holes: Rings = key((), "what it does not cover inside, as rings of corners")
    speed_factor: Positive = Field(description="factor on everyone's speed on it")
    name: str = key("", "its name")


class JammingZone(Part):
    polygon: Ring = Field(description="corners [[x, y], …] in metres")
    holes: Rings = key((), "where there is no noise inside, as rings of corners")
    noise_db: NotNegative = Field(description="rise of the noise: loss of a link with an end in the zone, dB")
    name: str = key("", "its name")


class Terrain(Part):
    size_m: Annotated[tuple[Positive, Positive], Field(strict=False)] = key(
        (1000.0, 1000.0),
        "width and height; the corner at (0, 0) is the south-west one. By default as large as maps in degrees, if any",
    )
    origin: LonLat | None = key(
        None,
        "[lon, lat] of (0, 0) for maps and traces in degrees; by default the south-west corner of what is used of the "
        "maps",
    )
    obstacles: Annotated[tuple[Obstacle, ...], Field(strict=False)] = key(
        (), 'tables, or maps as { geojson = "town.geojson", where = { building = "*" }, radio_loss_db = 12 }'
    )
    surfaces: Annotated[tuple[Surface, ...], Field(strict=False)] = key(
        (), "tables, or maps likewise; where they overlap the last one counts"
    )
    jamming_zones: Annotated[tuple[JammingZone, ...], Field(strict=False)] = key(
        (), "tables, or maps likewise; where they overlap their noise adds up"
    )

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check that every shape is a simple polygon that lies on the terrain."""
        named: dict[str, Sequence[Obstacle | Surface | JammingZone]] = {
            "obstacles": self.obstacles,
            "surfaces": self.surfaces,
            "jamming_zones": self.jamming_zones,
        }
        for name, shapes in named.items():
            for i, shape in enumerate(shapes):
                fault = _fault(shape, self.size_m)
                if fault:
                    given = shape.name or str([list(corner) for corner in shape.polygon])
                    yield Problem(f"{at}.{name}[{i}].polygon", fault, given)


def _fault(shape: Obstacle | Surface | JammingZone, size_m: tuple[float, float]) -> str | None:
    polygon = shapely.Polygon(shape.polygon, shape.holes)
    if not polygon.is_valid:
        return f"is not a simple polygon: {shapely.is_valid_reason(polygon)}"
    if polygon.area == 0:
        return "has no area"
    if not polygon.intersects(shapely.box(0, 0, *size_m)):
        return f"lies off the terrain of {size_m[0]:g} × {size_m[1]:g} m"
    return None
