"""Numbers that no world has, or no computer holds, are refused in a moment, and say how their limit is raised."""

from __future__ import annotations

import time

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
]


@pytest.mark.parametrize(("change", "said"), BEYOND)
def test_what_is_beyond_a_limit_is_refused_at_once(change: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.process_time()
    assert main(["check", "smoke", "--set", "terrain.obstacles=[]", "--set", change]) == 2
    assert said in capsys.readouterr().err
    assert time.process_time() - began < 2


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
