"""What the log of a run says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from short_runs import run

from fedmule.simulator.runs.tables import read_table
from fedmule.simulator.scenario import Scenario

Small = Callable[..., Scenario]


def test_token_accuracy_of_each_client_is_logged(small: Small, tmp_path: Path) -> None:
    found = run(small(), tmp_path / "a")
    means = found.clients.groupby("contact")["token_test_acc"].mean()
    logged = found.contacts.set_index("contact")["token_test_acc"].dropna()
    assert np.allclose(means.loc[logged.index], logged)
    assert found.summary["late_token_test_acc"] is None


def test_logged_counts_are_those_of_their_visit(small: Small, tmp_path: Path) -> None:
    found = run(small(learning={"evaluate_every": 1}), tmp_path / "a")
    steps = found.clients.groupby("contact")["gradient_steps"].sum()
    assert steps.loc[0] == 0
    assert (steps.loc[1:].to_numpy() == found.contacts["gradient_steps"].cumsum().to_numpy()).all()
    visits = found.clients.groupby("contact")[["visit", "visits"]].agg({"visit": "first", "visits": "sum"})
    assert (visits["visit"] == visits["visits"]).all()
    assert visits["visits"].max() == 20


def test_accuracies_at_a_contact_are_those_of_the_clients_it_reached(small: Small, tmp_path: Path) -> None:
    each = run(small(learning={"evaluate_every": 1}), tmp_path / "a")
    now = each.clients.set_index(["contact", "client"])["test_acc"]
    for row in each.contacts.itertuples():
        np.testing.assert_array_equal(row.delivered_test_acc, [now[row.contact, i] for i in row.delivered_ids])
    assert each.contacts["delivered"].sum() > 20
    rarely = run(small(learning={"evaluate_every": 7}), tmp_path / "b")
    pd.testing.assert_series_equal(rarely.contacts["delivered_test_acc"], each.contacts["delivered_test_acc"])


def test_the_site_of_each_client_is_logged_where_sites_matter(small: Small, tmp_path: Path) -> None:
    assert run(small(), tmp_path / "a").clients["site"].isna().all()
    squads = {"kind": "squads", "squads": 3, "regroup_at_s": 90.0, "regroup_share": 0.5}
    scenario = small(clients={"count": 9, "mobility": squads}, learning={"shift": "permuted"}, stop={"visits": 30})
    found = run(scenario, tmp_path / "b")
    sites = found.clients.pivot(index="sim_time_s", columns="client", values="site")
    assert sites.iloc[0].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    changed = (sites != sites.iloc[0]).any(axis=1)
    assert (changed == (sites.index >= 90.0)).all()
    assert changed.any()


def test_a_stream_with_other_columns_can_be_read(tmp_path: Path) -> None:
    """As another version of the program may have left it behind."""
    batch = pa.RecordBatch.from_pydict({"visit": [1, 2], "once": ["a", "b"]})
    with pa.ipc.new_stream(str(tmp_path / "contacts.arrows"), batch.schema) as writer:
        writer.write_batch(batch)
    assert read_table(tmp_path, "contacts").to_pydict() == {"visit": [1, 2], "once": ["a", "b"]}


def test_models_may_be_evaluated_now_and_then_only(small: Small, tmp_path: Path) -> None:
    """Learning, and the accuracies where they are evaluated, are the same; in between there are none."""
    keys = {"evaluate_every": 6, "validation_share": 0.2}
    always = run(small(learning=keys), tmp_path / "a")
    rarely = run(small(learning=keys | {"evaluate_contacts": False}), tmp_path / "b")
    number = rarely.contacts["contact"]
    assert (number.to_numpy() == np.arange(1, len(number) + 1)).all()
    evaluated = (number % 6 == 0) | (number == len(number))
    for column in ("personal_test_acc_mean", "personal_test_acc_weighted", "personal_validation_acc_mean"):
        assert always.contacts[column].notna().all()
        assert (rarely.contacts[column].notna() == evaluated).all()
        np.testing.assert_allclose(rarely.contacts[column][evaluated], always.contacts[column][evaluated], rtol=1e-12)
    assert (rarely.contacts["delivered_test_acc"].notna() == evaluated).all()
    others = [c for c in always.contacts if not c.startswith(("host", "personal", "active_", "delivered_"))]
    assert rarely.contacts[others].equals(always.contacts[others])
    assert rarely.clients.equals(always.clients)
    assert all(rarely.summary[k] == pytest.approx(v) for k, v in always.summary.items() if not k.startswith("host_"))


def test_a_run_evaluated_at_its_end_only_ends_with_all_figures(small: Small, tmp_path: Path) -> None:
    keys = {"evaluate_every": 1000, "evaluate_contacts": False, "validation_share": 0.2}
    found = run(small(learning=keys), tmp_path / "a")
    assert found.contacts["personal_test_acc_mean"].notna().tolist() == [False] * (len(found.contacts) - 1) + [True]
    assert found.summary["personal_validation_acc_mean"] == found.contacts["personal_validation_acc_mean"].iloc[-1]
    assert found.clients["contact"].unique().tolist() == [0, len(found.contacts)]
    at_the_end = found.clients[found.clients["visit"] == 20]["test_acc"].mean()
    assert found.summary["personal_test_acc_mean"] == pytest.approx(at_the_end)
