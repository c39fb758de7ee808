"""The ground as the page draws it: rings of corners, what each shape stops, and where its name goes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import shapely

from fedmule.analysis.loading import mobility_tables

Ring = list[list[float]]


def ground_of(scenario: dict[str, Any]) -> dict[str, Any]:
    """Surfaces, obstacles, jamming zones and roads of a resolved scenario, from bottom to top."""
    terrain = scenario["terrain"]
    shapes = [_shape(s, "slow" if s["speed_factor"] < 1 else "fast") for s in terrain.get("surfaces", ())]
    shapes += [_shape(o, _stops(o)) for o in terrain.get("obstacles", ())]
    shapes += [_shape(zone, "jammed") for zone in terrain.get("jamming_zones", ())]
    return {"shapes": shapes, "roads": _roads(scenario)}


def _stops(obstacle: dict[str, Any]) -> str:
    if obstacle["stops_movement"]:
        return "wall" if obstacle["radio_loss_db"] > 0 else "barrier"
    return "screen" if obstacle["radio_loss_db"] > 0 else "outline"


def _shape(given: dict[str, Any], kind: str) -> dict[str, Any]:
    rings = [given["polygon"], *given.get("holes", ())]
    return {
        "kind": kind,
        "name": given.get("name", ""),
        "rings": [_rounded(ring) for ring in rings],
        "middle": _middle(rings),
        "speed_factor": given.get("speed_factor"),
        "radio_loss_db": given.get("radio_loss_db"),
    }


def _middle(rings: Sequence[Any]) -> list[float]:
    """Position of the name: the centroid, or, if that is outside or near an edge, the point farthest from all edges."""
    polygon = shapely.Polygon(rings[0], rings[1:])
    radius = shapely.maximum_inscribed_circle(polygon, tolerance=math.sqrt(polygon.area) / 50)
    centre = polygon.centroid
    roomy = polygon.contains(centre) and polygon.boundary.distance(centre) > 0.8 * radius.length
    x, y = (centre if roomy else shapely.Point(radius.coords[0])).coords[0]
    return [round(x, 2), round(y, 2)]


def _roads(scenario: dict[str, Any]) -> list[Ring]:
    """Roads of the vehicle or the clients; a scenario does not list the streets of a grid."""
    tables = [scenario["vehicle"], *mobility_tables(scenario).values()]
    return [_rounded(line) for table in tables for line in (table.get("roads") or {}).get("lines", ())]


def _rounded(points: Sequence[Sequence[float]]) -> Ring:
    return [[round(float(x), 2), round(float(y), 2)] for x, y in points]
