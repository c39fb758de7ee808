"""Local steps that follow the time a contact in passing leaves: against times that follow by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmule.learning.algorithms.fedavg import FedAvg
from fedmule.simulator.engine import Simulation
from fedmule.simulator.errors import ScenarioError
from fedmule.simulator.fitting import most_that_fit
from fedmule.simulator.runs.columns import ContactRow
from fedmule.simulator.runs.folder import NoLog
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.rules import broken_rules

Small = Callable[..., Scenario]
MOST, RANGE_M, SETUP_S, STEP_S, ONE_WAY_S = 12, 50.0, 1.0, 0.7, 2.0


class Rows(NoLog):
    def __init__(self) -> None:
        self.rows: list[ContactRow] = []

    def contact(self, row: ContactRow) -> None:
        self.rows.append(row)


def passing(folder: Path, speed_mps: float, client_mps: float, **learning: Any) -> ContactRow:
    """A vehicle drives past a client that stands, or walks the same way; a row of the log is what becomes of it."""
    (folder / "way.csv").write_text(f"node,t,x,y\n0,0,300,50\n0,100,{300 + 100 * client_mps},50\n")
    scenario = Scenario.model_validate(
        {
            "terrain": {"size_m": [3000, 100]},
            "clients": {
                "count": 1, "mobility": {"kind": "trace", "path": str(folder / "way.csv")},
                "compute_flops_per_s": 1e6,
            },
            "vehicle": {"speed_mps": speed_mps, "route": {"points": [[10, 50], [2990, 50]], "end": "once"}},
            "radio": {"kind": "disc", "range_m": RANGE_M, "rate_mbps": 0.1, "setup_s": SETUP_S},
            "learning": {
                "algorithm": "fedavg", "local_steps": MOST, "fit_steps": True, "batch_size": 5,
                "payload_bytes": int(ONE_WAY_S * 1e5 / 8), "payload_flops_per_sample": STEP_S * 1e6 / 5,
                "dataset": {"samples": [10, 12]}, "evaluate_every": 1000, **learning,
            },
            "stop": {"sim_time_s": 90.0},
            "log": {"graph_every": 0},
        }
    )  # fmt: skip
    rows = Rows()
    Simulation(scenario).run(rows)
    (row,) = rows.rows
    assert row.in_passing
    return row


def steps_by_hand(speed_mps: float, client_mps: float) -> float:
    """Steps that the time in range leaves; below 1 for none."""
    return (2 * RANGE_M / (speed_mps - client_mps) - SETUP_S - 2 * ONE_WAY_S) / STEP_S


@pytest.mark.parametrize("client_mps", [0.0, 2.0])
@pytest.mark.parametrize("speed_mps", [7.3, 9.0, 11.5, 13.1, 15.9, 19.0])
def test_as_many_steps_as_the_link_leaves_time_for(tmp_path: Path, speed_mps: float, client_mps: float) -> None:
    fits = steps_by_hand(speed_mps, client_mps)
    row = passing(tmp_path, speed_mps, client_mps)
    assert row.delivered == (fits >= 1)
    if row.delivered:
        expected = min(MOST, int(fits))
        assert row.gradient_steps == expected
        assert row.compute_s == pytest.approx(expected * STEP_S)
    assert passing(tmp_path, speed_mps, client_mps, fit_steps=False).delivered == (fits >= MOST)


def test_training_alone_at_the_reference_s_contacts_takes_as_many_steps(tmp_path: Path) -> None:
    together = passing(tmp_path, 11.5, 0.0, algorithm="ditto")
    alone = passing(tmp_path, 11.5, 0.0, algorithm={"kind": "local", "reference": "ditto"})
    assert 1 < together.gradient_steps == alone.gradient_steps < 2 * MOST
    assert together.delivered == alone.delivered == 1


@pytest.mark.parametrize("most", [1, 2, 7, 20])
def test_bisection_finds_what_trying_all_finds(most: int) -> None:
    for limit in range(most + 2):
        assert most_that_fit(limit.__ge__, most) == max(1, min(limit, most))
    tried: list[int] = []
    most_that_fit(lambda steps: bool(tried.append(steps)), most)
    assert len(tried) <= 2 + np.log2(most)


def test_runs_without_contacts_in_passing_are_the_same(small: Small) -> None:
    vehicle = {"in_passing": False}
    summaries = [Simulation(small(vehicle=vehicle, learning={"fit_steps": fit})).run() for fit in (False, True)]
    for summary in summaries:
        summary.pop("host_time_s")  # type: ignore[misc]
    assert summaries[0] == summaries[1]


class Whole(FedAvg):
    """Overrides `update`, so that it takes all steps whatever a contact says."""

    def update(self, contact: Any) -> Any:
        return super().update(contact)


def test_where_it_makes_no_sense_it_is_refused(small: Small) -> None:
    between = small(learning={"fit_steps": True}, clients={"training": "between_contacts"})
    (problem,) = broken_rules(between)
    assert problem.key == "learning.fit_steps"
    assert "nobody computes at contacts" in problem.message
    own = small(learning={"fit_steps": True, "algorithm": {"kind": "test_fitting_steps:Whole"}})
    with pytest.raises(ScenarioError, match=r"learning\.fit_steps.*overrides update"):
        Simulation(own, {"learning.algorithm": Whole})
