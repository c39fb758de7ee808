"""Training alone in runs: what is logged, the sample, the switch, and that nothing else changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from short_runs import run, same

from fedmule.simulator.cli import main
from fedmule.simulator.engine import Simulation
from fedmule.simulator.runs.progress import summary_text
from fedmule.simulator.scenario import Scenario

Small = Callable[..., Scenario]

OWN = ("alone_test_acc_mean", "alone_test_acc")
KINDS: dict[str, dict[str, Any]] = {
    "usual": {},
    "local": {"learning": {"algorithm": "local"}},
    "star": {"learning": {"server": "star", "active": 3}},
    "late": {"clients": {"late": 3}},
    "two vehicles": {"vehicle": {"count": 2}},
    "large model": {"learning": {"model": "mlp", "evaluate_contacts": False}},
    "moved": {
        "clients": {"mobility": {"kind": "squads", "squads": 2, "regroup_at_s": 30.0}},
        "learning": {"shift": "permuted"},
    },
}


def without(base: dict[str, Any]) -> dict[str, Any]:
    return {**base, "learning": {**base.get("learning", {}), "alone": False}}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_else_changes(small: Small, tmp_path: Path, kind: str) -> None:
    on, off = run(small(**KINDS[kind]), tmp_path / "on"), run(small(**without(KINDS[kind])), tmp_path / "off")
    for table in ("contacts", "clients", "track", "graph", "meetings"):
        one, other = (getattr(r, table) for r in (on, off))
        same(one.drop(columns=[c for c in OWN if c in one]), other.drop(columns=[c for c in OWN if c in other]))
    assert off.contacts["alone_test_acc_mean"].isna().all()
    assert off.clients["alone_test_acc"].isna().all()
    assert off.summary["verdict"] is None
    assert off.summary["gain_over_alone"] is None
    assert off.summary["alone_clients"] == 0
    assert on.summary["verdict"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_summary_follows_from_the_tables(small: Small, tmp_path: Path, kind: str) -> None:
    found = run(small(**KINDS[kind]), tmp_path / "run")
    last = found.clients[found.clients["contact"] == found.clients["contact"].max()].dropna(subset=["alone_test_acc"])
    summary = found.summary
    gains = last["test_acc"] - last["alone_test_acc"]
    assert summary["alone_clients"] == len(last)
    assert summary["gain_over_alone"] == pytest.approx(gains.mean())
    assert summary["clients_better_off"] == (gains > 1e-9).sum()
    assert summary["clients_worse_off"] == (gains < -1e-9).sum()
    assert summary["alone_test_acc_mean"] == pytest.approx(last["alone_test_acc"].mean())
    evaluated = found.contacts["alone_test_acc_mean"].notna()
    assert list(evaluated) == list(found.contacts["token_test_acc"].notna())
    assert f"{abs(100 * gains.mean()):.1f} points" in summary["verdict"]


def test_devices_are_as_fast_as_they_are_in_contacts(small: Small) -> None:
    simulation = Simulation(small(clients={"compute_flops_per_s": 1e6}, learning={"local_steps": 7}))
    learner, alone = simulation.learner, simulation.learner.alone
    assert alone is not None
    cost_s = float(learner.cost(0, np.arange(1), 0.0, 0.0).flops[0]) / 1e6
    np.testing.assert_array_equal(alone.steps_by(100 * cost_s * (1 + 1e-9)), 700)


def test_a_sample_is_drawn_once_and_by_a_stream_of_its_own(small: Small, tmp_path: Path) -> None:
    scenario = small(clients={"count": 9}, learning={"alone": 4})
    one, other = run(scenario, tmp_path / "one"), run(scenario, tmp_path / "other")
    same(one.clients, other.clients)
    trained = one.clients.groupby("client")["alone_test_acc"].count()
    assert sorted(trained.unique()) == [0, one.clients["contact"].nunique()]
    assert (trained > 0).sum() == one.summary["alone_clients"] == 4
    assert ", in a sample of 4 of 9 clients" in one.summary["verdict"]
    seeds = {
        tuple(Simulation(small(seed=s, learning={"alone": 4})).learner.alone.sampled)  # type: ignore[union-attr]
        for s in range(6)
    }
    assert len(seeds) > 3


def test_more_than_all_is_all(small: Small, tmp_path: Path) -> None:
    assert run(small(learning={"alone": 100}), tmp_path / "run").summary["alone_clients"] == 8


@pytest.mark.parametrize("value", ["0", "-1", "2.5", '"some"'])
def test_other_values_are_refused(value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "smoke", "--set", f"learning.alone={value}", "--out", str(tmp_path / "run")]) == 2
    assert "learning.alone" in capsys.readouterr().err


def test_the_text_of_a_run_ends_with_the_verdict(small: Small, tmp_path: Path) -> None:
    found = run(small(), tmp_path / "run")
    lines = summary_text(found.summary, "there").splitlines()  # type: ignore[arg-type]
    assert lines[-1] == f"  verdict  {found.summary['verdict']}"
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["verdict"] == found.summary["verdict"]
    older = {key: value for key, value in found.summary.items() if key != "verdict"}
    assert "verdict" not in summary_text(older, "there")  # type: ignore[arg-type]
