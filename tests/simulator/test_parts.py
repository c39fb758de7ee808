"""One mechanism for parts: a keys class names its class, built-in parts are made as the user's own are."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedmule.learning.algorithms.ditto import Ditto
from fedmule.learning.algorithms.rwsadmm import Slack
from fedmule.simulator.cli import main
from fedmule.simulator.errors import ScenarioError
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.keys import OwnClass, Part
from fedmule.simulator.scenario.load import load_scenario, scenario_of
from fedmule.simulator.scenario.parts import _load, _tables, choose, keys_class, parameters_of
from fedmule.simulator.scenario.plugins import load_plugins
from fedmule.simulator.scenario.renamed import FORMAT

TABLES = _tables()  # by the class each makes
ARGUMENTS = {  # that the program provides
    "task", "terrain", "count", "draw", "area", "graph", "jump", "site", "samples", "clients", "generator", "shape",
    "features", "classes", "driving", "speed_mps",
}  # fmt: skip


def test_there_are_parts_in_every_room() -> None:
    rooms = {target.partition(":")[0].rpartition(".")[0] for target in TABLES}
    assert {"learning.algorithms", "learning.data", "learning.models"} <= rooms
    assert {"mobility.models", "radio.radios", "radio.walks"} <= rooms


@pytest.mark.parametrize("table", dict.fromkeys(TABLES.values()), ids=lambda table: table.__name__)
def test_every_key_reaches_a_class(table: type[Part]) -> None:
    """No key is only checked and explained."""
    taken: set[str] = set()
    for target in table.targets():
        taken |= set(parameters_of(_load(target))[0])
    handled = {"exponent", "reference_loss_db"} if table.__name__ == "WifiDirectRadio" else set()  # become a model
    chosen_by = {"RwsadmmKeys": {"variant", "token"}, "FedexKeys": {"mode"}}.get(table.__name__, set())  # the class
    assert set(table.model_fields) - {"kind"} - handled - chosen_by <= taken


@pytest.mark.parametrize("target", TABLES)
def test_no_default_is_written_twice(target: str) -> None:
    """The default of a key stands in its keys class; the class itself asks for a value."""
    keys = set(TABLES[target].model_fields)
    parameters, _ = parameters_of(_load(target))
    twice = [name for name, p in parameters.items() if name in keys and p.default is not inspect.Parameter.empty]
    assert not twice
    unknown = set(parameters) - keys - ARGUMENTS
    assert all(parameters[name].default is not inspect.Parameter.empty for name in unknown), unknown


# --- the user's own ------------------------------------------------------------------------------------------

MODULE = """
from fedmule import Movement
from fedmule.learning.algorithms.ditto import Ditto
from fedmule.learning.algorithms.rwsadmm import Slack

class MyDitto(Ditto):
    pass

class Cautious(Slack):
    def __init__(self, *, patience: int = 3, **more):
        super().__init__(**more)
        self.patience = patience

class Ring(Movement):
    def __init__(self, terrain, count, draw, radius_m: float, centre: tuple[float, float] = (0.0, 0.0)):
        pass
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "parts_of_mine.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("parts_of_mine", None)


def chosen(**tables: Any) -> Any:
    scenario = scenario_of(tables, [], "test")
    plugins = load_plugins(scenario, True, [Path.cwd()])
    return choose(scenario.learning.algorithm, "learning.algorithm", plugins)


def test_a_subclass_has_the_keys_of_its_base(desk: Path) -> None:
    plain = chosen(learning={"algorithm": "parts_of_mine:MyDitto"})
    assert issubclass(plain.made_by, Ditto)
    assert plain.keys == {"strength": 1.0}
    assert plain.ask("gradients_per_visit", 5) == 10
    other = chosen(learning={"algorithm": {"kind": "parts_of_mine:Cautious", "kappa": 0.1, "patience": 7}})
    assert issubclass(other.made_by, Slack)
    assert (other.keys["kappa"], other.keys["patience"], other.keys["growing_mean"]) == (0.1, 7, True)
    assert "rho" not in other.keys  # of another class that the same table can make


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"kind": "parts_of_mine:MyDitto", "strenght": 2}, "strenght = 2: unknown key; did you mean strength?"),
        ({"kind": "parts_of_mine:MyDitto", "strength": -1}, "strength = -1: must be at least 0"),
        ({"kind": "parts_of_mine:Cautious", "patience": "long"}, 'patience = "long": must be a whole number'),
    ],
)
def test_keys_of_own_classes_are_checked(desk: Path, table: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        chosen(learning={"algorithm": table})
    assert f"learning.algorithm.{message}" in str(raised.value)


def test_an_algorithm_must_be_one(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (desk / "no_part.py").write_text("class Nothing:\n    pass\n")
    assert main(["run", "smoke", "--allow-plugins", "--set", "learning.algorithm=no_part:Nothing"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert 'learning.algorithm.kind = "no_part:Nothing": must be a subclass of one of fedmule\'s base classes' in line
    sys.modules.pop("no_part", None)


def test_own_keys_by_their_signature(desk: Path) -> None:
    sys.path.append(str(desk))
    from parts_of_mine import Ring  # type: ignore[import-not-found]

    keys = keys_class(Ring, ("terrain", "count", "draw"))
    assert list(keys.model_fields) == ["radius_m", "centre"]
    made = keys.model_validate({"radius_m": 3, "centre": [1.0, 2.0]})
    assert made.arguments() == {"radius_m": 3.0, "centre": (1.0, 2.0)}
    mobility = {"kind": "parts_of_mine:Ring"}
    with pytest.raises(ScenarioError, match=r"clients\.mobility\.radius_m: is missing, and has no default"):
        load_plugins(scenario_of({"clients": {"mobility": mobility}}, [], "test"), True)


def test_own_keys_are_explained(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (desk / "mine.toml").write_text('[learning]\nalgorithm = "parts_of_mine:Cautious"\n')
    assert main(["check", "mine.toml", "--explain", "--allow-plugins"]) == 0
    printed = capsys.readouterr().out
    _, ours = printed.split('[learning.algorithm, kind = "parts_of_mine:Cautious"]')
    assert "patience = 3" in ours
    assert "kappa = 0.5" in ours
    assert "dual step κ (≥ 0)" in ours


def test_own_classes_are_known_by_what_is_provided() -> None:
    part = Scenario.model_validate({"radio": "a.b:C"}).radio
    assert isinstance(part, OwnClass)
    assert part.provided == ("draw",)


@pytest.mark.parametrize("where", ["script", "scenario"])
def test_modules_with_the_names_of_rooms_break_nothing(tmp_path: Path, where: str) -> None:
    """The user's own analysis/, learning.py and radio.py beside a script or a plugin scenario."""
    (tmp_path / "analysis").mkdir()
    (tmp_path / "analysis/__init__.py").write_text("raise SystemExit('analysis was imported')")
    for name in ("learning", "radio", "mobility", "simulator", "scenarios"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} was imported')")
    (tmp_path / "mine.py").write_text("from fedmule.learning.algorithms.ditto import Ditto\nclass Mine(Ditto): pass\n")
    (tmp_path / "mine.toml").write_text('learning = { algorithm = "mine:Mine" }\nstop = { visits = 2 }\n')
    script = "import fedmule; print(len(fedmule.load_run(fedmule.run('smoke', {'stop.visits': 2})).contacts))"
    (tmp_path / "script.py").write_text(script)
    run = ["-m", "fedmule", "run", "mine.toml", "--allow-plugins", "--quiet"]
    command = ["script.py"] if where == "script" else run
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, env=dict(os.environ), check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


# --- what was written for format 1 ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("learning.ditto_lambda=2", "is now learning.algorithm.strength"),
        ("learning.pfedme_inner_steps=2", 'algorithm = { kind = "pfedme", inner_steps = … }'),
        ("learning.beta=2", "is now learning.algorithm.beta"),
        ("learning.reference=ditto", "is now learning.algorithm.reference"),
        ("learning.places=3", "is now called sites"),
        ("learning.partition_over=places", 'is now called "sites"'),
        ("clients.mobility=placed_anew", 'is now called "redrawn"'),
        ("clients.mobility={kind='herd', memory_s=300}", "is gone: animals feed at a spot for stop_s"),
    ],
)
def test_errors_for_old_keys_show_the_new_form(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "smoke", "--set", old]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    key = old.partition("=")[0]
    assert line.startswith((f"--set: {key} = ", f"--set: {key}.memory_s = "))
    assert new in line


def test_run_folders_of_format_1_run_again(tmp_path: Path) -> None:
    """As an earlier version resolved a scenario: every key of every algorithm beside each other."""
    old = tmp_path / "old"
    old.mkdir()
    (old / "manifest.json").write_text("{}")
    (old / "scenario.toml").write_text(
        """name = "old"
        [clients]
        mobility = { kind = "static", places = [[1.0, 2.0], [3.0, 4.0]] }
        count = 2
        [learning]
        algorithm = "local"
        reference = "ditto"
        ditto_lambda = 0.25
        beta = 7.0
        partition_over = "places"
        places = 2
        dataset = { kind = "synthetic", alike_at_places = 0.5 }
        """
    )
    scenario = load_scenario(str(old))
    algorithm = scenario.learning.algorithm
    assert (algorithm.kind, algorithm.reference.kind, algorithm.reference.strength) == ("local", "ditto", 0.25)
    assert (scenario.learning.partition_over, scenario.learning.sites) == ("sites", 2)
    assert scenario.learning.dataset.alike_at_sites == 0.5
    assert scenario.clients.mobility.positions == ((1.0, 2.0), (3.0, 4.0))


def test_runs_and_scenarios_carry_their_format(tmp_path: Path) -> None:
    assert main(["run", "smoke", "--quiet", "--set", "stop.visits=1", "--out", str(tmp_path / "run")]) == 0
    assert json.loads((tmp_path / "run/manifest.json").read_text())["format"] == FORMAT == 2
    assert tomllib.loads((tmp_path / "run/scenario.toml").read_text())["format"] == FORMAT


def test_a_newer_format_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "smoke", "--set", "format=3"]) == 2
    assert "format = 3: must be 2" in capsys.readouterr().err


def test_training_alone_copies_what_it_replaces() -> None:
    """The reference is the replaced algorithm, with its own penalty."""
    local = load_scenario("earthquake", ["learning.algorithm=local"]).learning.algorithm
    assert local.reference == load_scenario("earthquake").learning.algorithm
    plain = load_scenario("smoke", ["learning.algorithm=walkman", "learning.algorithm=local"]).learning.algorithm
    assert (plain.reference.kind, plain.reference.beta) == ("walkman", 10.0)
    named = load_scenario("smoke", ["learning.algorithm={kind='local', reference='fedavg'}"]).learning.algorithm
    assert named.reference.kind == "fedavg"


def test_run_folders_from_before_links_keep_their_rule(tmp_path: Path) -> None:
    """Without the key in a run folder, contacts began by distance and nobody was served in passing."""
    (tmp_path / "manifest.json").write_text("{}")
    herd = '[clients]\nmobility = { kind = "herd", memory_s = 300.0, step_s = 30.0, spread_m = 40.0 }\n'
    (tmp_path / "scenario.toml").write_text(f'format = 2\nname = "old"\n{herd}[vehicle]\nspeed_mps = 7.0\n')
    scenario = load_scenario(str(tmp_path))
    vehicle, radio = scenario.vehicle, scenario.radio
    assert radio.reference_loss_db == 46.6777  # whatever the carrier
    assert scenario.clients.report_stagger is False
    assert scenario.clients.mobility.spread_m == 40
    assert (vehicle.contact, vehicle.in_passing, vehicle.speed_mps) == ("approach", False, 7.0)
    (tmp_path / "manifest.json").unlink()
    (tmp_path / "scenario.toml").write_text('format = 2\nname = "old"\n[vehicle]\nspeed_mps = 7.0\n')
    assert load_scenario(str(tmp_path)).vehicle.contact == "link"
    assert load_scenario(str(tmp_path)).radio.reference_loss_db is None
    assert load_scenario(str(tmp_path)).clients.report_stagger
