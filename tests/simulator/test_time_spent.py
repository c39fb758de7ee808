"""Where vehicles' time went: the summary's figures against the track and the contacts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from short_runs import run

from fedmule.analysis import Run
from fedmule.mobility.trajectory import Way
from fedmule.simulator.runs.progress import summary_text
from fedmule.simulator.scenario import Scenario

Small = Callable[..., Scenario]
DISC = {"kind": "disc", "range_m": 60.0, "rate_mbps": 0.05, "setup_s": 2.0, "latency_s": 0.01}


def moved(result: Run) -> tuple[float, float]:
    """Seconds in motion and metres of all vehicles, from the track."""
    seconds = metres = 0.0
    track = result.track[result.track["node"] == "vehicle"]
    for _, rows in track.groupby("id"):
        took = np.diff(rows["sim_time_s"])
        steps = np.hypot(np.diff(rows["x_m"]), np.diff(rows["y_m"]))
        seconds += took[steps > 0].sum()
        metres += steps.sum()
    return seconds, metres


@pytest.mark.parametrize("count", [1, 3])
def test_the_parts_are_those_of_the_log_and_add_up(small: Small, tmp_path: Path, count: int) -> None:
    result = run(small(vehicle={"count": count}, radio=DISC, stop={"visits": 30}), tmp_path / "run")
    summary, visits = result.summary, result.visits
    assert (summary["driven_s"], summary["driven_m"]) == pytest.approx(moved(result))
    assert summary["driven_m"] > 100
    assert summary["visits_s"] == pytest.approx(visits["contact_s"].sum())
    assert summary["visits_setup_s"] == pytest.approx(np.minimum(2.0, visits["contact_s"]).sum())
    assert summary["visits_airtime_s"] == pytest.approx(visits["airtime_s"].sum())
    parts = summary["driven_s"] + summary["visits_s"] + summary["stood_s"]
    assert parts == pytest.approx(count * summary["sim_time_s"])


def test_an_ideal_server_drives_nowhere(small: Small, tmp_path: Path) -> None:
    summary = run(small(learning={"server": "star"}, stop={"visits": 3}), tmp_path / "run").summary
    assert summary["driven_s"] is summary["driven_m"] is summary["visits_s"] is summary["stood_s"] is None
    assert "  time " not in summary_text(summary, "run")


def test_a_way_moves_where_it_leads_elsewhere() -> None:
    """Ten metres in 5 s, 3 s of rest, a jump, and 4 m in 1 s."""
    times = np.array([0.0, 5.0, 8.0, 8.0, 9.0])
    positions = np.array([[0.0, 0.0], [6.0, 8.0], [6.0, 8.0], [50.0, 8.0], [50.0, 12.0]])
    assert Way(times, positions).moved() == pytest.approx((6.0, 14.0))
    assert Way.standing(np.array([1.0, 2.0])).moved() == (0.0, 0.0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"radio": {**DISC, "range_m": 0.001}}, "nobody was ever in range"),
        ({"radio": {**DISC, "rate_mbps": 1e-5}}, "nothing got through"),
        ({"stop": {"visits": 2}}, "never completed an exchange"),
        ({"stop": {"visits": 40}}, None),
    ],
)
def test_what_a_user_should_know_is_said(small: Small, tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    moving = {"count": 6, "mobility": {"kind": "waypoint", "speed_mps": [5.0, 9.0], "pause_s": [0.0, 0.0]}}
    given: dict[str, Any] = {"clients": moving, "radio": DISC, "stop": {"sim_time_s": 300.0}, **changes}
    text = summary_text(run(small(**given), tmp_path / "run").summary, "run")
    notes = [line for line in text.splitlines() if line.startswith("  note ")]
    assert (said in notes[0]) if said else not notes, text
