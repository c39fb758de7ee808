"""Reports by satellite in a run: their keys, what they cost, and what becomes of a vehicle that relies on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from short_runs import run

from fedmule.simulator.cli import main
from fedmule.simulator.engine import Simulation
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.load import load_scenario, to_toml

Small = Callable[..., Scenario]
WALKING = {"kind": "waypoint", "speed_mps": [1.0, 1.5], "pause_s": [0.0, 0.0]}


def test_reports_are_counted_apart(small: Small, tmp_path: Path) -> None:
    """Eight clients report at the start, and then every 4 s at moments of their own."""
    clients = {"report_period_s": 4.0, "report_bytes": 24, "report_loss": 0.5}
    result = run(small(clients=clients, stop={"sim_time_s": 122.0}), tmp_path / "run")
    summary, contacts = result.summary, result.contacts
    assert 8 * 31 < summary["reports"] < 8 * 32  # some have reported in the last 2 s
    assert summary["reports_lost"] / (summary["reports"] - 8) == pytest.approx(0.5, abs=0.15)
    assert summary["report_bytes"] == 24 * summary["reports"]
    assert summary["bytes_down"] + summary["bytes_up"] == contacts["bytes_down"].sum() + contacts["bytes_up"].sum()


def test_an_ideal_server_needs_no_reports(small: Small) -> None:
    summary = Simulation(small(learning={"algorithm": "fedavg", "server": "star"}, stop={"visits": 3})).run()
    assert (summary["reports"], summary["reports_lost"], summary["report_bytes"]) == (0, 0, 0)


def test_old_news_costs_time(small: Small) -> None:
    """Whom the vehicle looks for where it was twenty minutes ago it finds later, or not at all."""
    keys: dict[str, Any] = {
        "terrain": {"size_m": [1500, 1500], "obstacles": []},
        "vehicle": {"in_passing": False, "give_up_s": 600.0, "speed_mps": 6.0},
        "radio": {"kind": "disc", "range_m": 60.0},
        "learning": {"alone": False},
        "stop": {"sim_time_s": 7200.0},
    }
    fresh, old = (
        Simulation(small(clients={"mobility": WALKING, "report_delay_s": delay_s}, **keys)).run()
        for delay_s in (0.0, 1200.0)
    )
    assert fresh["visits"] > 2 * old["visits"]
    assert fresh["missed"] < old["missed"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("report_loss=1", "clients.report_loss = 1: must be less than 1"),
        ("report_loss=-0.1", "clients.report_loss = -0.1: must be at least 0"),
        ("report_delay_s=[20, 5]", "clients.report_delay_s = [20.0, 5.0]: must be [lowest, highest]"),
        ("report_delay_s=-1", "clients.report_delay_s[0] = -1: must be at least 0"),
        ("report_delay_s=true", "clients.report_delay_s = true: "),
        ("report_bytes=1.5", "clients.report_bytes = 1.5: "),
        ("report_stagger=1", "clients.report_stagger = 1: "),
    ],
)
def test_keys_of_reports_say_what_is_wrong(given: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "smoke", "--set", f"clients.{given}"]) == 2
    assert said in capsys.readouterr().err


def test_a_delay_is_a_number_or_a_span(tmp_path: Path) -> None:
    for given, expected in (("30", (30.0, 30.0)), ("[5, 20.5]", (5.0, 20.5))):
        scenario = load_scenario("smoke", [f"clients.report_delay_s={given}"])
        assert scenario.clients.report_delay_s == expected
        (tmp_path / "again.toml").write_text(to_toml(scenario))
        again = load_scenario(str(tmp_path / "again.toml")).clients
        assert np.array_equal(again.report_delay_s, expected)
