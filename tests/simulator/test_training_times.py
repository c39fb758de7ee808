"""When clients compute: runs in which they train between contacts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from making import HIDDEN
from short_runs import run, same
from test_resume import alike, killed, resumed  # noqa: F401

from fedmule.learning.algorithms.base import Contact, Update
from fedmule.learning.algorithms.fedavg import FedAvg
from fedmule.simulator.engine import Simulation
from fedmule.simulator.errors import ScenarioError
from fedmule.simulator.runs.run import run_scenario
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.load import scenario_of

Small = Callable[..., Scenario]
BETWEEN = {"training": "between_contacts", "compute_flops_per_s": 3e5, "max_steps": 30}

ALGORITHMS: dict[str, Any] = {
    "rwsadmm": "rwsadmm",
    "derived": {"kind": "rwsadmm", "variant": "derived"},
    "printed": {"kind": "rwsadmm", "variant": "printed"},
    "neighbourhood": {"kind": "rwsadmm", "token": "neighbourhood"},
    **{kind: kind for kind in ("walkman", "fedavg", "ditto", "apfl", "pfedme", "per_fedavg", "squad_oracle")},
    "tuned": {"kind": "fedavg", "fine_tune": True},
    "averaged": {"kind": "fedavg", "fine_tune": True, "token_mean": 0.5, "fine_tune_step_size": 0.05},
    **{kind: kind for kind in ("fedper", "fedrep", "fedbabu", "fedrod", "fedala", "feddbe")},
    "fedex, sync": {"kind": "fedex", "mode": "sync"},
    "fedex, async": {"kind": "fedex", "mode": "async", "staleness": 0.5, "fine_tune": True},
    "ifca": {"kind": "ifca", "clusters": 2},
    "local": {"kind": "local", "reference": "ditto"},
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm(small: Small, tmp_path: Path, name: str) -> None:
    model = {"kind": "mlp", "hidden": [6]} if name in HIDDEN else "mlr"
    scenario = small(clients=BETWEEN, learning={"algorithm": ALGORITHMS[name], "model": model})
    found = run(scenario, tmp_path / "run")
    contacts, last = found.contacts, found.clients[found.clients["contact"] == found.clients["contact"].max()]
    assert len(found.visits) == 20
    assert contacts["in_passing"].any()
    assert (contacts["compute_s"] == 0).all()
    first = contacts.iloc[0]
    assert (first["bytes_up"], first["gradient_steps"]) == (0, 0)
    assert np.isnan(first["age_s"])
    assert np.isnan(first["train_loss"])
    assert contacts["gradient_steps"].sum() > 0
    assert last["gradient_steps"].sum() == contacts["gradient_steps"].sum() == found.summary["gradient_steps"]
    handed_over = contacts["bytes_up"] > 0
    assert (contacts["age_s"].notna() == handed_over).all()
    assert (contacts["age_s"][handed_over] > contacts["contact_s"][handed_over]).all()
    assert (contacts["train_loss"].notna() == (contacts["gradient_steps"] > 0)).all()
    assert found.summary["clients_reached"] == int((last["participations"] > 0).sum())
    if name not in ("printed", "walkman"):
        assert found.summary["personal_test_acc_mean"] > found.summary["start_personal_test_acc_mean"]


def test_ages_at_contacts_are_their_durations(small: Small, tmp_path: Path) -> None:
    contacts = run(small(learning={"open_at": 0.6}), tmp_path / "run").contacts
    together = contacts["bytes_up"] > 0
    np.testing.assert_allclose(contacts["age_s"][together], contacts["contact_s"][together], atol=1e-6)
    assert contacts["age_s"][~together].isna().all()
    assert together.any()
    assert not together.all()


CASES: dict[str, dict[str, Any]] = {
    "rwsadmm": {},
    "derived": {"learning": {"algorithm": ALGORITHMS["derived"]}},
    "neighbourhood": {"learning": {"algorithm": ALGORITHMS["neighbourhood"]}},
    "local": {"learning": {"algorithm": ALGORITHMS["local"]}},
    "apfl": {"learning": {"algorithm": "apfl"}},
    "ifca": {"learning": {"algorithm": ALGORITHMS["ifca"]}},
    "late": {"clients": {**BETWEEN, "late": 3, "late_at": 0.5}},
    "two vehicles": {"vehicle": {"count": 2}, "radio": {"kind": "disc", "range_m": 80.0}},
    "three that average": {"vehicle": {"count": 3}, "learning": {"algorithm": "fedavg"}},
    "regrouped": {
        "clients": {**BETWEEN, "mobility": {"kind": "squads", "squads": 2, "regroup_at_s": 60.0}},
        "learning": {"shift": "permuted", "algorithm": "ditto"},
    },
}


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_run_is_the_one_that_was_not_killed(
    small: Small,
    tmp_path: Path,
    killed: Any,  # noqa: F811
    case: str,
) -> None:
    scenario = small(**{"clients": BETWEEN, **CASES[case]})
    complete = run(scenario, tmp_path / "complete")
    folder = killed(scenario, kept=9, at=13)
    alike(complete, resumed(scenario, folder))


def test_how_often_models_are_evaluated_changes_nothing_else(small: Small, tmp_path: Path) -> None:
    often, rarely = (
        run(
            small(clients=BETWEEN, learning={"evaluate_every": every, "evaluate_contacts": each}), tmp_path / str(every)
        )
        for every, each in ((1, True), (1000, False))
    )
    accuracies = [name for name in often.contacts if "acc" in name]
    diagnostics = ["violation_max", "violation_rms", "violated_share", "dual_norm", "lagrangian", "lyapunov"]
    same(*(found.contacts.drop(columns=[*accuracies, *diagnostics]) for found in (often, rarely)))
    final = "personal_test_acc_mean"
    assert often.summary[final] == pytest.approx(rarely.summary[final], abs=1e-12)


def test_with_time_to_spare_clients_take_all_their_steps(small: Small, tmp_path: Path) -> None:
    """With the same processor, a contact is shorter by its computation."""
    slow, together = {"compute_flops_per_s": 1e5}, {"algorithm": {"kind": "rwsadmm", "try_at": 0.0}}
    at = run(
        small(clients=slow, learning=together), tmp_path / "at"
    ).visits  # in passing a link may break before a client computes
    between = run(
        small(clients={**slow, "training": "between_contacts"}, learning=together), tmp_path / "between"
    ).visits
    assert at["compute_s"].min() > 1
    assert between["contact_s"].median() < at["contact_s"].median() - at["compute_s"].median() + 1e-3
    fast, near = {**BETWEEN, "compute_flops_per_s": 1e9, "max_steps": 3}, {"kind": "wifi_direct", "range_m": 50.0}
    rare = run(small(clients=fast, radio=near, learning=together), tmp_path / "few").contacts
    assert (rare["gradient_steps"] <= 3 * rare["delivered"]).all()
    assert (rare["gradient_steps"] == 3 * rare["delivered"]).any()


def test_only_a_share_of_the_processor(small: Small) -> None:
    steps = []
    for share in (1.0, 0.25):
        simulation = Simulation(small(clients={**BETWEEN, "training_share": share, "max_steps": 1000}))
        training = simulation.learner.training
        training._given_s[:] = 0.0
        steps.append(training._steps(np.arange(8), 100.0))
    assert (steps[0] > 8).all()
    assert (steps[1] == steps[0] // 4).all()


def problems(**keys: Any) -> str:
    with pytest.raises(ScenarioError) as error:
        scenario_of(keys, (), "test")
    return str(error.value)


def test_what_cannot_be_is_refused(small: Small, tmp_path: Path) -> None:
    star = problems(clients={"training": "between_contacts"}, learning={"server": "star", "active": 3})
    assert 'clients.training = "between_contacts": must be "at_contact" with learning.server = "star"' in star
    assert "clients.training_share" in problems(clients={"training_share": 0.0})
    assert "clients.training_share" in problems(clients={"training_share": 1.5})
    assert "clients.max_steps" in problems(clients={"max_steps": 0})
    assert "clients.training" in problems(clients={"training": "never"})


class Halfway(FedAvg):
    """Overrides `update` alone."""

    def update(self, contact: Contact) -> Update:
        return super().update(contact)


@pytest.mark.parametrize("within", ["", "local"])
def test_an_algorithm_that_overrides_update_alone_is_refused_before_the_run(
    small: Small, tmp_path: Path, within: str
) -> None:
    own: dict[str, Any] = {"kind": "test_training_times:Halfway"}
    key = "learning.algorithm.reference" if within else "learning.algorithm"
    algorithm = {"kind": "local", "reference": own} if within else own
    plugins = {key: Halfway}
    run_scenario(small(learning={"algorithm": algorithm}), str(tmp_path / "at"), plugins)
    with pytest.raises(ScenarioError, match=r'clients\.training = "between_contacts": needs an algorithm'):
        run_scenario(small(clients=BETWEEN, learning={"algorithm": algorithm}), str(tmp_path / "between"), plugins)
    assert not (tmp_path / "between").exists()


def test_contacts_that_take_no_time_are_refused_where_they_could_go_on_for_ever(small: Small) -> None:
    keys = {"clients": BETWEEN, "radio": {"kind": "disc", "range_m": 80.0, "setup_s": 0.0}}
    Simulation(small(**keys))
    with pytest.raises(ScenarioError, match=r"radio\.setup_s = 0: must be more than 0 .*between_contacts"):
        Simulation(small(**keys, stop={"sim_time_s": 100.0}))
