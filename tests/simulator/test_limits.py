"""Numbers that no world has, or no computer holds, are refused in a moment, and say how their limit is raised."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fedmule.simulator.cli import main
from fedmule.simulator.errors import UserError
from fedmule.simulator.scenario.limits import VARIABLE
from fedmule.simulator.scenario.load import load_scenario

BEYOND = [
    ("clients.count=1000000000", "clients.count = 1000000000: must be at most 10,000,000 (FEDMULE_LIMITS=count=1e+09"),
    ("vehicle.count=1000000", "vehicle.count = 1000000: must be at most 10,000"),
    ("learning.dataset={ kind = 'synthetic', features = 1000000000 }", "learning.dataset.features"),
    ("learning.model={ kind = 'mlp', hidden = [8, 100000000] }", "learning.model.hidden"),
    ("learning.batch_size=1000000000", "learning.batch_size"),
    ("radio={ kind = 'disc', range_m = 1e300 }", "radio.range_m = 1e+300: must be between 1e-06 and 1e+08"),
    ("terrain={ size_m = [1e300, 10.0] }", "terrain.size_m"),
    ("vehicle.speed_mps=1e-300", "vehicle.speed_mps = 1e-300: must be between 1e-06 and 1e+06 (or 0)"),
    ("clients.report_period_s=1e-9", "clients.report_period_s"),
    ("clients.mobility={ kind = 'waypoint', speed_mps = [1e-300, 2.0] }", "clients.mobility.speed_mps"),
    ("clients.report_period_s=1e-4", "clients.report_period_s = 0.0001: must be between 0.001 and 1e+11"),
    (
        "clients.mobility={ kind = 'manhattan', block_m = [0.01, 0.01] }",
        "clients.mobility.block_m = [0.01, 0.01]",
    ),
    ("vehicle.roads={ block_m = [0.01, 0.01] }", "vehicle.roads.block_m = [0.01, 0.01]: makes 1.2e+09 crossings"),
    ("clients.count=9000000", 'learning.dataset = "synthetic": with clients.count = 9,000,000 needs 129.6 GB'),
    ("learning.batch_size=" + "9" * 400, "must be at most 1,000,000"),
]


@pytest.mark.parametrize(("change", "said"), BEYOND)
def test_what_is_beyond_a_limit_is_refused_at_once(change: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.process_time()
    assert main(["check", "smoke", "--set", "terrain.obstacles=[]", "--set", change]) == 2
    assert said in capsys.readouterr().err
    assert time.process_time() - began < 2


def nested(deep: str, depth: int) -> str:
    return {"lists": "a = " + "[" * depth + "]" * depth, "tables": f"[{'.'.join(['a'] * depth)}]\nx = 1"}.get(
        deep, "a = " + "{ b = " * depth + "1" + " }" * depth
    )


@pytest.mark.parametrize("depth", [61, 3000])
@pytest.mark.parametrize("deep", ["lists", "tables", "inline tables"])
def test_toml_that_is_nested_deeply(deep: str, depth: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, text = tmp_path / "deep.toml", nested(deep, depth)
    file.write_text(text)
    words = ["--set", f"learning.algorithm={text.removeprefix('a = ')}"] if deep != "tables" else []
    for command in (["check", str(file)], ["paper", str(file)], *([["check", "smoke", *words]] if words else [])):
        assert main(command) == 2
        assert "nested more than 60 deep" in capsys.readouterr().err


def test_a_number_with_thousands_of_digits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "long.toml").write_text("seed = " + "9" * 5000)
    assert main(["check", str(tmp_path / "long.toml")]) == 2
    assert "long.toml: not valid TOML" in capsys.readouterr().err


def test_studies_of_more_runs_than_anybody_can_wait_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["study", "smoke", "--seeds", "1000000000"]) == 2
    assert "smoke: plans 1,000,000,000 runs, more than 100,000 (FEDMULE_LIMITS=runs=1e+09" in capsys.readouterr().err
    ranges = [word for key in ("speed_mps", "search_s", "jump") for word in ("--vary", f"vehicle.{key}=1..9000:1")]
    assert main(["study", "smoke", *ranges]) == 2
    assert "plans 729,000,000,000 runs" in capsys.readouterr().err


def test_a_limit_can_be_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    change = ["learning.batch_size=2000000"]
    with pytest.raises(UserError, match="batch_size=2e"):
        load_scenario("smoke", change)
    for text in ("batch_size=2e6", "clients.count=1, learning.batch_size=2e6", "off"):
        monkeypatch.setenv(VARIABLE, text.replace("clients.count=1", "clients.count=100"))
        assert load_scenario("smoke", change).learning.batch_size == 2_000_000
    monkeypatch.setenv(VARIABLE, "batch_size=many")
    with pytest.raises(UserError, match=r"FEDMULE_LIMITS: must be .* not 'batch_size=many'"):
        load_scenario("smoke", change)


def test_zero_and_infinity_are_no_matter_of_limits() -> None:
    assert load_scenario("smoke", ["radio.setup_s=0", "learning.algorithm.eps=inf"]).radio.setup_s == 0
    assert load_scenario("smoke", ["log.checkpoint_s=1e-9"]).log.checkpoint_s == 1e-9
