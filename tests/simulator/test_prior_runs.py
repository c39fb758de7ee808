"""Runs with a prior of labels: what they record, sites that change, models that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from short_runs import run
from unfit import Run

from fedmule.analysis import load_run
from fedmule.simulator.cli import main
from fedmule.simulator.engine import Simulation
from fedmule.simulator.runs.progress import summary_text
from fedmule.simulator.scenario import Scenario

Small = Callable[..., Scenario]


def test_clients_that_change_site_have_the_prior_of_their_new_labels(small: Small) -> None:
    squads = {"kind": "squads", "squads": 2, "regroup_at_s": 60}
    simulation = Simulation(small(clients={"mobility": squads}, learning={"prior": True, "shift": "permuted"}))
    data = simulation.learner.algorithm.data
    assert data.prior is not None
    before = data.prior.log.clone()
    simulation.run()
    assert not before.equal(data.prior.log)
    assert data.prior.log.equal(data.with_prior(0.5).prior.log)  # type: ignore[union-attr]


def test_the_run_says_that_a_prior_was_used(small: Small, tmp_path: Path) -> None:
    together = {"kind": "rwsadmm", "try_at": 0.0}
    given = {None: {}, 0.5: {"prior": True}, 2.0: {"prior": 2}}
    found = {
        prior: run(small(learning={"algorithm": together, **keys}), tmp_path / str(prior))
        for prior, keys in given.items()
    }
    for prior, made in found.items():
        assert made.summary["prior"] == prior
        text = summary_text(made.summary, "here")  # type: ignore[arg-type]
        assert ("with a prior of the client's own labels" in text) == (prior is not None)
    same = ("bytes_up", "bytes_down", "sim_time_s")
    assert {tuple(made.summary[key] for key in same) for made in found.values()} == {
        tuple(found[None].summary[key] for key in same)
    }
    assert len({made.summary["personal_test_acc_mean"] for made in found.values()}) > 1


def test_the_run_says_how_many_clients_added_their_own_labels(small: Small, tmp_path: Path) -> None:
    found = {}
    for rule in (True, False):
        algorithm = {"kind": "rwsadmm", "try_at": 0.0, "own_labels": rule}
        found[rule] = run(small(learning={"algorithm": algorithm, "open_at": 0.4}), tmp_path / str(rule)).summary
        text = summary_text(found[rule], "here")  # type: ignore[arg-type]
        assert ("clients added their own label frequencies" in text) == rule
    assert 0 < found[True]["clients_own_labels"] <= found[True]["clients_reached"]
    assert found[False]["clients_own_labels"] == 0
    assert found[True]["bytes_down"] == found[False]["bytes_down"]
    fedavg = run(small(learning={"algorithm": "fedavg"}), tmp_path / "fedavg").summary
    assert fedavg["clients_own_labels"] is None


def test_own_labels_and_a_prior_exclude_each_other(refused: Run) -> None:
    line = refused("learning.algorithm.own_labels=true", "learning.prior=true")
    assert "learning.algorithm.own_labels = true: must be false or held_out with learning.prior" in line


def test_the_key_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "smoke", "--explain"]) == 0
    assert "label frequencies" in " ".join(capsys.readouterr().out.split())


def test_own_models(accepted: Callable[..., None], refused: Run) -> None:
    model = "learning.model={{ kind = 'unfit_parts:Untold', penalty = {} }}"
    line = refused(model.format(0.1), "learning.prior=true")
    assert line.startswith(
        "smoke: learning.prior = true: the model cannot be trained with a prior: its gradient is not"
    )
    assert "argument `prior`" in line
    accepted(model.format(0.0), "learning.prior=true")
    assert load_run("run").summary["prior"] == 0.5


def test_an_own_module(accepted: Callable[..., None]) -> None:
    accepted("learning.model=unfit_parts:Net", "learning.prior=0.1")
    assert np.isfinite(load_run("run").contacts["train_loss"].dropna()).all()


def test_one_score_or_one_class_is_refused_as_without_a_prior(refused: Run) -> None:
    one = "learning.model={ kind = 'unfit_parts:Net', made = 'torch.nn.Linear(features, 1)' }"
    assert "must be a tensor of shape" in refused(one, "learning.prior=true")
    change = "{ kind = 'unfit_parts:samples', change = 'classes = 1; labels = 0 * labels' }"
    assert "classes must be a whole number, 2 or more" in refused(f"learning.dataset={change}", "learning.prior=true")


def test_clients_with_a_single_label(accepted: Callable[..., None]) -> None:
    change = "{ kind = 'unfit_parts:samples', change = 'labels = owner % 2' }"
    accepted(f"learning.dataset={change}", "learning.prior=true", "stop.visits=3")
    assert np.isfinite(load_run("run").contacts["train_loss"].dropna()).all()
