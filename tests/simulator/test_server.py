"""An ideal server, and clients that come late."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from short_runs import run, same

from fedmule.simulator.scenario import Scenario

Small = Callable[..., Scenario]


@pytest.mark.parametrize("algorithm", ["rwsadmm", "fedavg", "pfedme", "local"])
def test_an_ideal_server_reaches_clients_at_random_at_once(small: Small, tmp_path: Path, algorithm: str) -> None:
    scenario = small(learning={"algorithm": algorithm, "server": "star", "active": 3}, stop={"visits": 40})
    found = run(scenario, tmp_path / "a")
    contacts = found.contacts
    assert (contacts["delivered"] == 3).all()
    assert (contacts["neighbours"] == 8).all()
    assert contacts["client"].isna().all()
    assert (contacts["airtime_s"] == 0).all()
    assert (contacts["travel_s"].abs() < 1e-9).all()
    assert contacts["sim_time_s"].iloc[-1] == pytest.approx(contacts["compute_s"].sum())
    times = np.bincount(np.concatenate(contacts["delivered_ids"].to_list()), minlength=8)
    assert times.sum() == 120
    assert times.min() >= 7  # 15 each on average
    assert (
        contacts["personal_test_acc_mean"].iloc[-1] > contacts["personal_test_acc_mean"].iloc[0]
    ) or algorithm == "pfedme"
    if algorithm == "fedavg":
        assert (contacts["bytes_down"] == 3 * 4 * 610).all()
        assert (contacts["bytes_up"] == 3 * 4 * 610).all()
    same(contacts, run(scenario, tmp_path / "b").contacts)


def test_an_ideal_server_with_everyone_takes_everyone(small: Small, tmp_path: Path) -> None:
    found = run(small(learning={"algorithm": "fedavg", "server": "star"}, stop={"visits": 3}), tmp_path / "a")
    assert (found.contacts["delivered"] == 8).all()
    assert (found.clients[found.clients["visit"] == 3]["participations"] == 3).all()


@pytest.mark.parametrize("server", ["vehicle", "star"])
def test_late_clients_are_nowhere_until_they_join(small: Small, tmp_path: Path, server: str) -> None:
    learning = {"server": server, "open_at": 0.6, "evaluate_every": 1}
    keys = {"clients": {"late": 3, "late_at": 0.5}, "vehicle": {"jump": 0.5}, "stop": {"visits": 40}}
    found = run(small(learning=learning, **keys), tmp_path / "a")
    (join,) = found.visits["contact"][found.visits["visit"] == 20]  # they join when this contact has ended
    took_part = found.contacts["active_ids"].map(lambda ids: bool(set(ids) & {5, 6, 7}))
    assert not took_part[:join].any()
    assert took_part[join:].any()
    assert not found.contacts["client"][:join].isin([5, 6, 7]).any()
    late = found.clients[found.clients["client"] >= 5]
    before, after = late[late["contact"] == join], late[late["contact"] == found.summary["contacts"]]
    assert len(before) == len(after) == 3
    assert found.summary["late_token_test_acc"] == pytest.approx(before["token_test_acc"].mean())
    assert found.summary["late_personal_test_acc"] == pytest.approx(after["test_acc"].mean())
    assert (before["participations"] == 0).all()
