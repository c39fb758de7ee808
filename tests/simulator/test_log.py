"""What the log of a run says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from runs import run

from simulator.scenario import Scenario
from simulator.tables import read_table

Small = Callable[..., Scenario]


def test_token_accuracy_of_each_client_is_logged(small: Small, tmp_path: Path) -> None:
    found = run(small(), tmp_path / "a")
    means = found.clients.groupby("visit")["token_test_acc"].mean()
    logged = found.contacts.set_index("visit")["token_test_acc"].dropna()
    assert np.allclose(means.loc[logged.index], logged)
    assert found.summary["late_token_test_acc"] is None


def test_logged_counts_are_those_of_their_visit(small: Small, tmp_path: Path) -> None:
    found = run(small(learning={"evaluate_every": 1}), tmp_path / "a")
    steps = found.clients.groupby("visit")["gradient_steps"].sum()
    assert steps.loc[0] == 0
    assert (steps.loc[1:].to_numpy() == found.contacts["gradient_steps"].cumsum().to_numpy()).all()
    visits = found.clients.groupby("visit")["visits"].sum()
    assert (visits.to_numpy() == np.arange(21)).all()


def test_a_stream_with_other_columns_can_be_read(tmp_path: Path) -> None:
    """As another version of the program may have left it behind."""
    batch = pa.RecordBatch.from_pydict({"visit": [1, 2], "once": ["a", "b"]})
    with pa.ipc.new_stream(str(tmp_path / "contacts.arrows"), batch.schema) as writer:
        writer.write_batch(batch)
    assert read_table(tmp_path, "contacts").to_pydict() == {"visit": [1, 2], "once": ["a", "b"]}
