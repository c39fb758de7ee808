"""Maps as others write them: degrees, all kinds of features in one file, and messages for those that cannot be used."""

from __future__ import annotations

import gzip
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import shapely
import tomli_w

from fedmule.mobility.traces.formats import writer
from fedmule.mobility.traces.trace import Rows
from fedmule.simulator.cli import main
from fedmule.simulator.errors import ScenarioError
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.load import load_scenario, scenario_of
from fedmule.simulator.streams import Streams
from fedmule.simulator.world import build_world

WEST, SOUTH = 8.54, 47.37
EAST_M, NORTH_M = 6_371_008.8 * math.pi / 180 * math.cos(math.radians(SOUTH)), 6_371_008.8 * math.pi / 180  # per degree


def degrees(x: float, y: float) -> list[float]:
    return [WEST + x / EAST_M, SOUTH + y / NORTH_M]


def house(x: float, y: float, side: float = 20) -> list[list[float]]:
    return [degrees(x + a * side, y + b * side) for a, b in ((0, 0), (1, 0), (1, 1), (0, 1), (0, 0))]


def feature(kind: str, coordinates: Any, **tags: Any) -> dict[str, Any]:
    return {"type": "Feature", "properties": tags, "geometry": {"type": kind, "coordinates": coordinates}}


def town() -> list[dict[str, Any]]:
    """A town of 100 houses as exports of OpenStreetMap have it: one closed way, one crossed and one with a court."""
    chance = random.Random(3)
    found = []
    for i in range(10):
        for j in range(10):
            ring = house(20 + 80 * i, 20 + 60 * j, chance.uniform(10, 35))
            kind, shape = "Polygon", [ring]
            if (i, j) == (3, 3):
                kind, shape = "LineString", ring
            if (i, j) == (4, 4):
                shape = [[ring[0], ring[2], ring[1], ring[3], ring[0]]]
            if (i, j) == (5, 5):
                kind, shape = "MultiPolygon", [[house(420, 320, 30), house(430, 330, 5)]]
            tags = {"building": "yes", "name": None} if i % 2 else {"type": "way", "tags": {"building": "house"}}
            found.append(feature(kind, shape, **tags))
    for k in range(11):
        residential = [degrees(79.95 * k, 59.95 * n) for n in range(11)]
        found.append(feature("LineString", residential, highway="residential", name=f"{k}. Street"))
        found.append(feature("LineString", [degrees(79.95 * n, 59.95 * k) for n in range(11)], highway="primary"))
    found.append(feature("Polygon", [house(100, 400, 40)], landuse="grass", building="no"))
    found += [feature("Point", degrees(9 * n, 5 * n), natural="tree") for n in range(60)]
    return [*found, {"type": "Feature", "properties": {"type": "route"}, "geometry": None}]


TOWN = """
[terrain]
obstacles = [{ geojson = "town.geojson", where = { building = "*" }, radio_loss_db = 12 }]
surfaces = { geojson = "town.geojson", where = { landuse = ["grass", "meadow"] }, speed_factor = 0.5 }
[vehicle]
roads = { geojson = "town.geojson", where = { highway = "primary" } }
[clients]
count = 4
mobility = { kind = "roads", roads = { geojson = "town.geojson", where = { highway = "*" } } }
[stop]
visits = 2
"""

Check = Callable[..., str]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    """Write town.geojson and town.toml, check the scenario, and return what is said."""
    monkeypatch.chdir(tmp_path)

    def run(features: Any, toml: str, status: int = 0, **members: Any) -> str:
        content = {"type": "FeatureCollection", **members, "features": features}
        Path("town.geojson").write_text(json.dumps(content), encoding="utf-8")
        Path("town.toml").write_text(toml, encoding="utf-8")
        assert main(["check", "town.toml"]) == status
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return said.err if status else said.out

    return run


def obstacles(size_m: tuple[float, float] | None = (900.0, 900.0), **keys: Any) -> str:
    """A scenario with that map, on a terrain larger than it unless it is to be as large."""
    size = {} if size_m is None else {"size_m": list(size_m)}
    return tomli_w.dumps({"terrain": {**size, "obstacles": [{"geojson": "town.geojson", **keys}]}})


# --- a town ---------------------------------------------------------------------------------------------------


def test_an_export_of_openstreetmap_is_a_world(check: Check) -> None:
    said = check(town(), TOWN)
    rest = "60 points, 1 without geometry"
    assert said.splitlines() == [
        "town.toml: ok",
        f"  terrain: 800 × 600 m, as large as its maps; (0, 0) is at [{WEST:.6f}, {SOUTH:.6f}]",
        f"  vehicle.roads: used 11 lines of town.geojson, skipped 173: 100 polygons, 12 other lines, {rest}",
        f"  clients.mobility.roads: used 22 lines of town.geojson, skipped 162: 100 polygons, 1 other line, {rest}",
        f"  terrain.obstacles[0]: used 101 polygons of town.geojson, skipped 84: 22 lines, 1 other polygon, {rest}",
        f"  terrain.surfaces[0]: used 1 polygon of town.geojson, skipped 183: 99 other polygons, 23 lines, {rest}",
    ]
    scenario = load_scenario("town.toml")
    terrain = scenario.terrain
    assert terrain.origin == pytest.approx((WEST, SOUTH), abs=1e-12)
    assert terrain.obstacles[0].polygon[0] == pytest.approx((20, 20), abs=1e-6)
    assert {obstacle.radio_loss_db for obstacle in terrain.obstacles} == {12}
    areas = [shapely.Polygon(o.polygon, o.holes) for o in terrain.obstacles]
    assert all(area.is_valid for area in areas)
    court = next(area for area in areas if area.interiors)
    assert court.area == pytest.approx(30**2 - 5**2, rel=1e-6)
    assert scenario.vehicle.roads is not None
    assert scenario.vehicle.roads.lines[3][10] == pytest.approx((799.5, 179.85), abs=1e-6)
    assert len(build_world(scenario, Streams(0), {}).positions) == 4


def test_the_example_of_the_page_loads(check: Check) -> None:
    page = (Path(__file__).parents[2] / "docs" / "mobility.md").read_text(encoding="utf-8")
    example = page.partition("# Maps\n")[2].partition("```toml\n")[2].partition("```")[0]
    assert "used 101 polygons of town.geojson, skipped 84" in check(town(), example)


def test_a_crossed_house_keeps_its_area(check: Check) -> None:
    ring = house(0, 0, 20)
    check([feature("Polygon", [[ring[0], ring[2], ring[1], ring[3], ring[0]]])], obstacles())
    halves = [shapely.Polygon(o.polygon) for o in load_scenario("town.toml").terrain.obstacles]
    assert [half.area for half in halves] == pytest.approx([100, 100], rel=1e-6)


def test_where_allows_values_and_numbers(check: Check) -> None:
    houses = [
        feature("Polygon", [house(50 * n, 0)], building=tag, levels=n) for n, tag in enumerate(["yes", "no", "hut"])
    ]
    for where, count in (
        ({}, 3),
        ({"building": "*"}, 2),
        ({"building": "no"}, 1),
        ({"building": ["hut", "*"]}, 2),
        ({"levels": "2"}, 1),
        ({"building": "*", "levels": ["0", "1"]}, 1),
    ):
        Path("town.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": houses}))
        raw = {"terrain": {"obstacles": [{"geojson": "town.geojson", "where": where}]}}
        assert len(scenario_of(raw, (), "where").terrain.obstacles) == count, where


def test_a_smaller_terrain_leaves_houses_out_and_keeps_those_on_its_edge(check: Check) -> None:
    houses = [feature("Polygon", [house(100 * n, 0)]) for n in range(5)]
    said = check(houses, obstacles((310, 100)))
    assert "terrain.obstacles[0]: used 4 polygons of town.geojson, skipped 1: 1 off the terrain" in said
    assert len(load_scenario("town.toml").terrain.obstacles) == 4


def test_one_origin_for_all_files_and_for_traces(check: Check) -> None:
    """Buildings in one file, streets farther west and south in another, a walk in a GPX file: they fit each other."""
    street = feature("LineString", [degrees(0, 0), degrees(299.5, 0)])
    Path("streets.geojson.gz").write_bytes(
        gzip.compress(json.dumps({"type": "FeatureCollection", "features": [street]}).encode())
    )
    rows = Rows()
    rows.add("ann", 0, 110, 40)
    rows.add("ann", 100, 210, 40)
    writer("walk.gpx", origin=(WEST, SOUTH))[1](rows.trace())
    toml = 'terrain = { obstacles = "town.geojson"%s }\nvehicle.roads = "streets.geojson.gz"\n'
    toml += 'clients = { count = 1, mobility = { kind = "trace", path = "walk.gpx" } }\n'
    said = check([feature("Polygon", [house(100, 50, 19.5)])], toml % "")
    assert "terrain: 300 × 70 m, as large as its maps" in said

    def corner_and_walk() -> tuple[Any, Any]:
        scenario = load_scenario("town.toml")
        positions = build_world(scenario, Streams(0), {}).positions
        return scenario.terrain.obstacles[0].polygon[0], positions.trajectories.positions(0.0)[0]

    corner, walk = corner_and_walk()
    assert corner == pytest.approx((100, 50), abs=1e-6)
    assert walk == pytest.approx((110, 40), abs=1e-6)
    lon, lat = degrees(-20, -10)
    check([feature("Polygon", [house(100, 50, 19.5)])], toml % f", origin = [{lon}, {lat}]")
    corner, walk = corner_and_walk()
    assert corner == pytest.approx((120, 60), abs=1e-3)
    assert walk == pytest.approx((130, 50), abs=1e-3)


def test_a_map_may_have_its_own_origin_in_degrees_or_metres(check: Check) -> None:
    check([feature("Polygon", [house(0, 0)])], obstacles(None, origin=degrees(-30.5, -7.5)))
    scenario = load_scenario("town.toml")
    assert scenario.terrain.obstacles[0].polygon[2] == pytest.approx((50.5, 27.5), abs=1e-3)
    assert scenario.terrain.origin == pytest.approx(tuple(degrees(-30.5, -7.5)))
    assert scenario.terrain.size_m == (51, 28)
    utm = [[465_000, 5_246_000], [465_020, 5_246_000], [465_020, 5_246_030]]
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::25832"}}
    check([feature("Polygon", [utm])], obstacles(coordinates="metres", origin=[464_990, 5_245_990]), crs=crs)
    assert load_scenario("town.toml").terrain.obstacles[0].polygon == ((10, 10), (30, 10), (30, 40))


def test_what_a_feature_says_wins_and_is_checked(check: Check) -> None:
    grass = [feature("Polygon", [house(50 * n, 0)], speed_factor=0.25 * (n + 1), name=n) for n in range(3)]
    check(grass, 'terrain.surfaces = ["town.geojson"]\n')
    found = load_scenario("town.toml").terrain.surfaces
    assert [(surface.speed_factor, surface.name) for surface in found] == [(0.25, "0"), (0.5, "1"), (0.75, "2")]
    grass[1]["properties"]["speed_factor"] = "slow"
    said = check(grass, 'terrain.surfaces = ["town.geojson"]\n', status=2)
    assert "town.geojson: feature 1: speed_factor = 'slow' must be a number" in said
    del grass[1]["properties"]["speed_factor"]
    said = check(grass, 'terrain.surfaces = ["town.geojson"]\n', status=2)
    assert said.count("\n") == 1
    assert "feature 1: speed_factor is missing, and has no default" in said


@pytest.mark.parametrize("crs", ["urn:ogc:def:crs:OGC:1.3:CRS84", "EPSG:4326", "urn:ogc:def:crs:EPSG::4258"])
def test_older_files_may_name_degrees(check: Check, crs: str) -> None:
    named = {"type": "name", "properties": {"name": crs}}
    check([feature("Polygon", [house(0, 0)])], obstacles(), crs=named)
    assert load_scenario("town.toml").terrain.obstacles[0].polygon[2] == pytest.approx((20, 20), abs=1e-3)
    said = check([feature("Polygon", [house(0, 0)])], obstacles(coordinates="metres"), status=2, crs=named)
    assert 'town.toml: terrain.obstacles[0].coordinates = "metres": must be "lonlat", or left out: town.geojson' in said


# --- maps that cannot be used ---------------------------------------------------------------------------------

HOUSE = feature("Polygon", [house(0, 0)], building="yes")
STREET = feature("LineString", [degrees(0, 0), degrees(90, 0)], highway="path", surface="mud")
METRES = feature("Polygon", [[[512, 88], [530, 88], [530, 99]]])
SMALL = feature("Polygon", [[[10, 10], [60, 10], [60, 40]]])
FIJI = [feature("Polygon", [[[lon, -17], [lon + 0.01, -17], [lon, -17.01]]]) for lon in (-179.95, 179.95)]


@pytest.mark.parametrize(
    ("features", "keys", "messages"),
    [
        ([STREET], {}, ["geojson = ", "town.geojson holds no polygon; it has 1 line"]),
        (
            [STREET, STREET, feature("Point", [8, 47], natural="tree")],
            {"where": {"building": "*"}},
            [
                "[0].where = ",
                'town.geojson holds no polygon with building = "*"; its tags are highway (2), surface (2), n',
            ],
        ),
        (
            [feature("Point", [8, 47], building="yes"), STREET],
            {"where": {"building": ["yes", "house"]}},
            ['holds no polygon with building = ["yes", "house"]; it has 1 point with that'],
        ),
        ([feature("Polygon", [house(0, 0)])], {"where": {"a": "b"}}, ['no polygon with a = "b"; it has no tags']),
        ([METRES], {}, ["feature 0 has a position [512, 88], which is no longitude", 'say coordinates = "metres"']),
        ([SMALL], {}, ["is 50° × 30°, from [10, 10] to [60, 40]", 'in metres, say coordinates = "metres"']),
        (FIJI, {}, ["town.geojson lies across the date line: its longitudes go from -179.95 to 179.96"]),
        ([HOUSE], {"wher": {}}, ["terrain.obstacles[0].wher = {}: unknown key; did you mean where?"]),
        ([HOUSE], {"radio_loss_db": "high"}, ['terrain.obstacles[0].radio_loss_db = "high": must be a number']),
        ([HOUSE], {"coordinates": "utm"}, ["terrain.obstacles[0].coordinates", "must be 'lonlat' or 'metres'"]),
        ([HOUSE], {"where": {"building": 3}}, ["terrain.obstacles[0].where = 3: must be a string, or must be a list"]),
        ([HOUSE], {"origin": [8.5]}, ["terrain.obstacles[0].origin"]),
        ([HOUSE], {"origin": [47.37, 8.54]}, ["holds no polygon on the terrain: 1 off the terrain, from (-42"]),
        ([feature("Polygon", [[[8, 47], [8, 47]]])], {}, ["holds no polygon on the terrain: 1 without area"]),
        ([feature("Polygon", [[[8, None], [8, 47]]])], {}, ["feature 0 is not a well-formed GeoJSON feature"]),
        ([feature("Polygon", [[[8, 1e999], [8, 47]]])], {}, ["feature 0 is not a well-formed GeoJSON feature"]),
        ([feature("Blob", [])], {}, ["feature 0 is not a well-formed GeoJSON feature"]),
        (["house"], {}, ["feature 0 is not a well-formed GeoJSON feature"]),
    ],
)
def test_a_map_that_cannot_be_used_is_refused_where_it_is_named(
    check: Check, features: Any, keys: dict[str, Any], messages: list[str]
) -> None:
    said = check(features, obstacles(**keys), status=2)
    assert said.startswith("town.toml: terrain.obstacles[0].")
    assert said.count("\n") == 1
    for message in messages:
        assert message in said


def test_a_projected_map_is_refused_with_the_cure(check: Check) -> None:
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::25832"}}
    said = check([METRES], obstacles(), status=2, crs=crs)
    assert 'town.geojson is in the coordinate system urn:ogc:def:crs:EPSG::25832: say coordinates = "metres"' in said


def test_maps_far_apart_and_maps_without_extent_are_reported(check: Check) -> None:
    Path("paris.geojson").write_text(json.dumps(feature("LineString", [[2.35, 48.85], [2.36, 48.86]])))
    toml = 'vehicle.roads = { geojson = "paris.geojson" }\nterrain.obstacles = "town.geojson"\n'
    said = check([HOUSE], toml, status=2)
    assert "terrain.obstacles[0].geojson" in said
    assert "with vehicle.roads it is 6.19" in said
    street = feature("LineString", [degrees(0, 0), degrees(89.5, 0)])
    said = check([street], 'vehicle.roads = "town.geojson"\n', status=2)
    assert "terrain.size_m: must be given: its maps go only as far as (90, 0) m" in said
    fiji = {"type": "FeatureCollection", "features": FIJI[:1]}
    Path("west.geojson").write_text(json.dumps(fiji))
    toml = 'terrain.obstacles = ["west.geojson", "town.geojson"]\n'
    assert "with terrain.obstacles[0] it lies across the date line" in check(FIJI[1:], toml, status=2)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("town.osm", b"<osm version='0.6'></osm>", "is OpenStreetMap data but not GeoJSON: convert it"),
        ("town.osm.pbf", b"\x00\x00", "is OpenStreetMap data but not GeoJSON"),
        ("town.json", b"<?xml version='1.0'?>\n<osm/>", "is OpenStreetMap data but not GeoJSON"),
        ("town.json", b'{"version": 0.6, "elements": []}', "is OpenStreetMap data but not GeoJSON"),
        ("town.kml", b"<kml/>", "is XML, not GeoJSON"),
        ("town.json", b'{"type": "Topology"}', "is TopoJSON: convert it to GeoJSON"),
        ("town.json", b"[]", "is not GeoJSON: it must be an object"),
        ("town.json", b"\xff\xfe", "is not GeoJSON: 'utf-8'"),
        ("town.json", b"[" * 100_000, "is not GeoJSON"),
        ("town.geojson.gz", b"no archive", "cannot be read"),
    ],
)
def test_files_of_other_formats_are_refused_by_name(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ScenarioError) as caught:
        scenario_of({"terrain": {"obstacles": name}}, (), "other", tmp_path)
    (problem,) = caught.value.problems
    assert (problem.key, problem.value) == ("terrain.obstacles[0].geojson", name)
    assert problem.message.startswith(f"{tmp_path / name} {message}")


def test_all_bad_maps_are_reported_at_once(tmp_path: Path) -> None:
    raw = {
        "terrain": {"obstacles": ["a.geojson", {"geojson": 3}], "jamming_zones": "b.geojson"},
        "vehicle": {"roads": "c.geojson", "route": {"geojson": "d.geojson", "ends": 1}},
        "clients": {"count": 0},
    }
    with pytest.raises(ScenarioError) as caught:
        scenario_of(raw, (), "many", tmp_path)
    assert {problem.key for problem in caught.value.problems} == {
        "terrain.obstacles[0].geojson",
        "terrain.obstacles[1].geojson",
        "terrain.jamming_zones[0].geojson",
        "vehicle.roads.geojson",
        "vehicle.route.ends",
        "clients.count",
    }


def test_resolved_scenarios_need_no_map(check: Check) -> None:
    from fedmule.simulator.scenario.load import read_toml, to_toml

    check(town(), TOWN)
    scenario: Scenario = load_scenario("town.toml")
    Path("resolved.toml").write_text(to_toml(scenario), encoding="utf-8")
    Path("town.geojson").unlink()
    assert scenario_of(read_toml(Path("resolved.toml")), (), "resolved") == scenario
