from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fedmule.simulator.errors import UserError
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.explain import entries, explain
from fedmule.simulator.scenario.load import find_scenario, load_scenario, own_classes, packaged_scenarios, to_toml
from fedmule.simulator.scenario.messages import tables_in


def errors_of(tmp_path: Path, text: str, *overrides: str) -> list[str]:
    file = tmp_path / "bad.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        load_scenario(str(file), overrides)
    return str(caught.value).splitlines()


def test_an_empty_file_is_all_defaults(tmp_path: Path) -> None:
    (tmp_path / "empty.toml").write_text("")
    scenario = load_scenario(str(tmp_path / "empty.toml"))
    assert scenario == Scenario(name="empty")
    assert scenario.stop.visits is not None


@pytest.mark.parametrize("name", sorted(packaged_scenarios()))
def test_scenarios_that_ship_are_valid_and_survive_being_resolved(name: str, tmp_path: Path) -> None:
    scenario = load_scenario(name)
    (tmp_path / "again.toml").write_text(to_toml(scenario), encoding="utf-8")
    assert load_scenario(str(tmp_path / "again.toml")) == scenario


def test_infinite_eps_survives_being_resolved(tmp_path: Path) -> None:
    scenario = load_scenario("smoke", ["learning.algorithm.eps=inf"])
    (tmp_path / "again.toml").write_text(to_toml(scenario), encoding="utf-8")
    assert load_scenario(str(tmp_path / "again.toml")).learning.algorithm.eps == float("inf")


def test_all_errors_at_once_each_with_key_value_and_what_is_allowed(tmp_path: Path) -> None:
    lines = errors_of(
        tmp_path,
        """
        clint = 3
        radio = "wfi_direct"
        [vehicle]
        speed_mps = -3
        sped_mps = 1
        start = [1, "a"]
        jump = nan
        [clients]
        count = 0
        mobility = { kind = "squads", squads = 0, sprd_m = 1, speed_mps = [1, 2, 3] }
        [learning]
        open_at = nan
        active = "some"
        algorithm = "fedvg"
        step_size = "fast"
        [terrain]
        obstacles = [{ polygon = [[0, 0], [1, 1]] }]
        size_m = 5
        [stop]
        visits = 2.5
        """,
    )
    expected = [
        ("clint = 3", "unknown key; did you mean clients?"),
        ('radio.kind = "wfi_direct"', "did you mean wifi_direct?"),
        ("vehicle.speed_mps = -3", "must be greater than 0"),
        ("vehicle.sped_mps = 1", "did you mean speed_mps?"),
        ('vehicle.start[1] = "a"', "must be a number"),
        ("vehicle.jump = nan", "must be a finite number"),
        ("clients.count = 0", "must be at least 1"),
        ("clients.mobility.squads = 0", "must be at least 1"),
        ("clients.mobility.sprd_m = 1", "did you mean spread_m?"),
        ("clients.mobility.speed_mps = [1, 2, 3]", "at most 2 entries"),
        ("learning.open_at = nan", "must be a finite number"),
        ('learning.active = "some"', "'all' or 'visited', or must be a whole number"),
        ('learning.algorithm.kind = "fedvg"', "did you mean fedavg?"),
        ('learning.step_size = "fast"', "must be a number"),
        ("terrain.obstacles[0].polygon = [[0, 0], [1, 1]]", "at least 3 entries"),
        ("terrain.size_m = 5", "must be a list"),
        ("stop.visits = 2.5", "must be a whole number"),
    ]
    assert len(lines) == len(expected)
    for position, message in expected:
        assert sum(position in line and message in line and line.startswith(str(tmp_path)) for line in lines) == 1, (
            position
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("terrain.obstacles = [{ polygon = [[0, 0], [9, 9], [9, 0], [0, 9]] }]", "Self-intersection"),
        ("terrain.obstacles = [{ polygon = [[0, 0], [9, 9], [18, 18]] }]", "not a simple polygon"),
        ("terrain.obstacles = [{ polygon = [[-9, -9], [-2, -9], [-2, -2]] }]", "off the terrain"),
        ("vehicle.start = [-1, 5]", "must lie on the terrain"),
        ('clients = { count = 3, mobility = { kind = "static", positions = [[1, 1]] } }', "each of the 3 clients"),
        ('clients = { count = 1, mobility = { kind = "static", positions = [[1, 1e6]] } }', "must lie on the terrain"),
        ('clients = { count = 3, mobility = { kind = "squads", squads = 4 } }', "at most the number of clients"),
        ('clients = { count = 3, mobility = { kind = "redrawn" } }', "less than the number of clients"),
        ('clients.mobility = { kind = "waypoint", pause_s = [9, 1] }', "[lowest, highest]"),
        ("learning.dataset = { samples = [90, 50] }", "[lowest, highest]"),
        ('clients.mobility = { kind = "my.module" }', "must be one of static"),
        ('clients.mobility = { kind = "1x:Class" }', 'must be a class as "package.module:Class"'),
        ("radio = 3", "must be a table"),
        ('name = "a\\u001b[2J"', "must not contain control characters"),
        ('learning.algorithm = { kind = "rwsadmm", variant = "derived", eps = inf }', "must be finite"),
        ('learning.algorithm = { kind = "local", reference = "local" }', "must be one of rwsadmm, fedavg"),
    ],
)
def test_keys_that_do_not_go_together(tmp_path: Path, text: str, message: str) -> None:
    (line,) = errors_of(tmp_path, text)
    assert message in line


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "windows.toml").write_bytes(b"\xef\xbb\xbfseed = 3\r\n")
    assert load_scenario(str(tmp_path / "windows.toml")).seed == 3


def test_files_that_are_no_scenario(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(bytes(range(256)))
    with pytest.raises(UserError, match="not a text file"):
        load_scenario(str(binary))
    (line,) = errors_of(tmp_path, "[vehicle]\nspeed_mps = = 3\n")
    assert "line 2, column 13" in line
    with pytest.raises(UserError, match="did you mean warzone"):
        load_scenario("warzne")


def test_set_overrides_by_dotted_path() -> None:
    scenario = load_scenario(
        "warzone",
        [
            "vehicle.speed_mps=8",
            "learning.algorithm=fedavg",
            "vehicle.start=[5, 6]",
            "terrain.obstacles.0.radio_loss_db=3",
            "learning.model.kind=mlr",
            "clients.mobility.spread_m = 12",
        ],
        seed=7,
    )
    assert scenario.vehicle.speed_mps == 8
    assert scenario.vehicle.start == (5, 6)
    assert scenario.learning.algorithm.kind == "fedavg"
    assert scenario.terrain.obstacles[0].radio_loss_db == 3
    assert scenario.clients.mobility.spread_m == 12
    assert scenario.seed == 7


@pytest.mark.parametrize("bad", ["vehicle.speed_mps", "=3", "terrain.obstacles.99.name=x", "seed.deep=3"])
def test_set_that_makes_no_sense(bad: str) -> None:
    with pytest.raises(UserError, match="--set"):
        load_scenario("warzone", [bad])


def test_errors_in_set_say_so() -> None:
    with pytest.raises(UserError) as caught:
        load_scenario("smoke", ["vehicle.speed_mps=-1", "vehicle.spede=2"])
    assert all(line.startswith("--set: vehicle.") for line in str(caught.value).splitlines())


def test_a_kind_without_its_own_keys_keeps_the_default_kind(tmp_path: Path) -> None:
    (tmp_path / "short.toml").write_text("radio = { range_m = 77 }\nclients.mobility = 'static'\n")
    scenario = load_scenario(str(tmp_path / "short.toml"))
    assert (scenario.radio.kind, scenario.radio.range_m) == ("wifi_direct", 77)
    assert scenario.clients.mobility.kind == "static"


def test_own_classes_keep_their_keys(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('[clients]\nmobility = { kind = "my_pkg.herds:Herd", calves = 3 }\n')
    scenario = load_scenario(str(tmp_path / "own.toml"))
    assert {key: own.model_dump() for key, own in own_classes(scenario).items()} == {
        "clients.mobility": {"kind": "my_pkg.herds:Herd", "calves": 3}
    }


def test_every_key_is_explained() -> None:
    found = list(entries())
    assert all(entry.meaning and entry.meaning != "None" for entry in found)
    names = {entry.key for entry in found}

    def keys_below(part: type) -> set[str]:
        keys = set(part.model_fields)
        for field in part.model_fields.values():
            for inner in tables_in(field.annotation).values():
                keys |= keys_below(inner)
        return keys

    tables = {"terrain", "vehicle", "clients", "learning", "stop", "log"}
    assert keys_below(Scenario) - tables <= names
    assert "speed_mps = 10" in explain()


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "warzone"],
        ["check", "warzone", "--set", "learning.algorithm=fedper"],  # which cannot train its model
        *(["--help"], ["check", "--explain"], ["run", "--help"]),
    ],
)
def test_light_commands_import_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from fedmule.simulator.cli import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "except SystemExit:\n"
        "    pass\n"
        "heavy = {'torch', 'pandas', 'scipy', 'matplotlib', 'pyarrow', 'networkx'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- GeoJSON -------------------------------------------------------------------------------------------------

SQUARE = [[10, 10], [20, 10], [20, 20], [10, 20], [10, 10]]
HOLE = [[12, 12], [14, 12], [14, 14], [12, 14], [12, 12]]


def write_town(folder: Path, content: object) -> str:
    (folder / "town.geojson").write_text(content if isinstance(content, str) else json.dumps(content))
    (folder / "town.toml").write_text(
        'terrain.obstacles = [{ geojson = "town.geojson", coordinates = "metres", radio_loss_db = 9 }]\n'
    )
    return str(folder / "town.toml")


def test_obstacles_from_geojson(tmp_path: Path) -> None:
    features = [
        {
            "type": "Feature",
            "properties": {"name": "mill", "radio_loss_db": 4, "osm": 1},
            "geometry": {"type": "Polygon", "coordinates": [SQUARE, HOLE]},
        },
        {
            "type": "Feature",
            "properties": None,
            "geometry": {"type": "MultiPolygon", "coordinates": [[SQUARE], [[[x + 50, y] for x, y in SQUARE]]]},
        },
    ]
    scenario = load_scenario(write_town(tmp_path, {"type": "FeatureCollection", "features": features}))
    mill, *others = scenario.terrain.obstacles
    assert (mill.name, mill.radio_loss_db, len(mill.holes)) == ("mill", 4, 1)
    assert [o.radio_loss_db for o in others] == [9, 9]
    assert others[1].polygon[0] == (60, 10)


def test_geojson_in_degrees_is_projected(tmp_path: Path) -> None:
    corners = [[8.0, 50.0], [8.001, 50.0], [8.001, 50.001], [8.0, 50.0]]
    (tmp_path / "town.geojson").write_text(json.dumps({"type": "Polygon", "coordinates": [corners]}))
    (tmp_path / "town.toml").write_text(
        'terrain.obstacles = [{ geojson = "town.geojson", coordinates = "lonlat", origin = [8.0, 50.0] }]\n'
    )
    polygon = load_scenario(str(tmp_path / "town.toml")).terrain.obstacles[0].polygon
    assert polygon[1] == pytest.approx((71.5, 0.0), abs=0.1)  # a thousandth of a degree of longitude at 50° N
    assert polygon[2] == pytest.approx((71.5, 111.2), abs=0.1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{ not json", "is not GeoJSON"),
        ({"type": "FeatureCollection", "features": []}, "holds no polygon"),
        ({"type": "LineString", "coordinates": [[0, 0], [1, 1]]}, "holds no polygon; it has 1 line"),
        ({"type": "Polygon", "coordinates": [[["a", 0], [1, 1], [1, 0]]]}, "not a well-formed"),
    ],
)
def test_bad_geojson(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load_scenario(write_town(tmp_path, content))
    assert "terrain.obstacles[0].geojson" in str(caught.value)
    assert "town.geojson" in str(caught.value)


def test_a_run_folder_is_a_scenario_too(tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text("seed = 5\n")
    assert find_scenario(str(tmp_path)) == tmp_path / "scenario.toml"
