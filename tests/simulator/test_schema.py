"""The JSON schema of scenario files accepts what the program accepts, short forms included, and refuses mistakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from fedmule.simulator.cli import main
from fedmule.simulator.errors import UserError
from fedmule.simulator.scenario.load import packaged_scenarios, scenario_of
from fedmule.simulator.scenario.schema import schema

SCHEMA = schema()
SCENARIOS = Path(__file__).parents[2] / "scenarios"


def test_it_is_a_schema_and_the_one_in_the_repository(capsys: pytest.CaptureFixture[str]) -> None:
    Draft7Validator.check_schema(SCHEMA)
    assert main(["schema"]) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed, parse_constant=pytest.fail) == SCHEMA
    assert (SCENARIOS / "fedmule.schema.json").read_text(encoding="utf-8") == printed, "fedmule schema > …"


def test_another_version_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "--format", "9"]) == 2
    assert "knows format 2 of scenario files, not 9" in capsys.readouterr().err


@pytest.mark.parametrize("name", packaged_scenarios())
def test_scenarios_that_ship_are_valid(name: str) -> None:
    raw = tomllib.loads(packaged_scenarios()[name].read_text(encoding="utf-8"))
    assert [error.message for error in Draft7Validator(SCHEMA).iter_errors(raw)] == []


MAP = {"geojson": "town.geojson"}
SQUARE = '{"type": "Polygon", "coordinates": [[[10, 10], [90, 10], [90, 90], [10, 10]]]}'


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ('radio = "disc"', True),
        ('radio = "disk"', False),
        ('radio = { kind = "disc", range_m = 30 }', True),
        ('radio = { kind = "disc", range = 30 }', False),
        ('radio = { kind = "ble", propagation = "friis" }', True),
        ('radio = { kind = "ble", propagation = { exponent = 3 } }', True),
        ('clients.mobility = "herd"', True),
        ('clients.mobility = { kind = "waypoint", home_m = 40 }', True),
        ('clients.mobility = { kind = "waypoint", home_m = -1 }', False),
        ("clients.report_delay_s = 3", True),
        ("clients.report_delay_s = [3, 4]", True),
        ("clients.report_delay_s = [3, 4, 5]", False),
        ('vehicle.walk = { kind = "degree", levy = 0.3 }', True),
        ('vehicle.walk = { kind = "degree", levy = { chance = 0.3 } }', True),
        ('vehicle.walk = { kind = "degree", levy = "often" }', False),
        ('learning.algorithm.eps = [0, inf]\nlearning.model = { kind = "mlp", hidden = [8] }', True),
        ('learning.algorithm = { kind = "local", reference = "ditto" }', True),
        ('learning.algorithm = { kind = "fedavg", betta = 3 }', False),
        ('terrain.obstacles = "town.geojson"', True),
        ('terrain.obstacles = [{ geojson = "town.geojson", radio_loss_db = 3 }]', True),
        ('terrain.obstacles = { geojson = "town.geojson", where = { building = "*" } }', None),
        ('terrain.obstacles = [{ geojson = "town.geojson", radio_los_db = 3 }]', False),
        ("terrain.obstacles = [{ polygon = [[0, 0], [9, 0], [9, 9]] }]", True),
        ("terrain.obstacles = [{ polygon = [[0, 0], [9, 0]] }]", False),
        ("terrain.obstacles = 3", False),
        ("stop.visits = 3", True),
        ("stop.visits = 0", False),
        ("stop.visits = 2.5", False),
        ("log.models = true", True),
        ("speed = 3", False),
    ],
)  # fmt: skip
def test_it_agrees_with_the_program(text: str, valid: bool | None, tmp_path: Path) -> None:
    """None: the schema cannot know, since it depends on the map."""
    (tmp_path / "town.geojson").write_text(SQUARE)
    raw = tomllib.loads(text)
    accepted = Draft7Validator(SCHEMA).is_valid(raw)
    assert accepted == (valid is not False)
    if valid is not None:
        assert _is_accepted(tomllib.loads(text.replace("town.geojson", str(tmp_path / "town.geojson")))) == valid


def _is_accepted(raw: dict[str, Any]) -> bool:
    if "terrain" in raw and isinstance(raw["terrain"]["obstacles"], str | list):
        raw["terrain"]["size_m"] = [100, 100]
        maps = raw["terrain"]["obstacles"]
        maps = [maps] if isinstance(maps, str) else maps
        raw["terrain"]["obstacles"] = [
            {"coordinates": "metres", **({"geojson": one} if isinstance(one, str) else one)}
            if isinstance(one, str) or "geojson" in one
            else one
            for one in maps
        ]
    try:
        scenario_of({"name": "test", **raw}, (), "test")
        return True
    except UserError:
        return False


def completions(line: str, tmp_path: Path) -> list[str]:
    out = tmp_path / "completions"
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n"}
    asked |= {"_ARGCOMPLETE_STDOUT_FILENAME": str(out), "_ARGCOMPLETE_SUPPRESS_SPACE": "1"}
    code = "import sys; from fedmule.simulator.cli import main; sys.argv = ['fedmule']; main()"
    subprocess.run([sys.executable, "-c", code], env=os.environ | asked, cwd=tmp_path, check=True)
    return out.read_text().split("\n")


def test_a_shell_completes_commands_options_and_scenarios(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert completions("fedmule re", tmp_path) == ["replay", "report"]
    assert completions("fedmule run war", tmp_path) == ["warzone"]
    assert completions("fedmule study gain/wi", tmp_path) == ["gain/wildlife"]
    assert "--resume" in completions("fedmule run --re", tmp_path)
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == 0
        assert "fedmule" in capsys.readouterr().out
