"""Measures of runs and comparisons, on small tables with obvious answers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fedmule.analysis.comparison import better_than, compare_table, usual_target
from fedmule.analysis.measures import accuracy_at, band, bytes_to_accuracy, curve, spent, time_to_accuracy, to_accuracy
from fedmule.analysis.result_tables import Entry


@pytest.fixture
def contacts() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "visit": [1, 2, 3, 4],
            "sim_time_s": [10.0, 25.0, 40.0, 70.0],
            "host_time_s": [0.1, 0.2, 0.3, 0.4],
            "bytes_down": [100, 0, 100, 100],
            "bytes_up": [50, 0, 50, 50],
            "payload_bytes": [60, 60, 60, 60],
            "gradient_steps": [20, 0, 20, 40],
            "personal_test_acc_mean": [0.5, 0.5, 0.8, 0.7],
            "token_test_acc": [None, 0.6, None, 0.9],
        }
    )


def test_what_was_spent_adds_up(contacts: pd.DataFrame) -> None:
    assert spent(contacts, "bytes").tolist() == [150, 150, 300, 450]
    assert spent(contacts, "gradient_steps").tolist() == [20, 20, 40, 80]
    assert spent(contacts, "visits").tolist() == [1, 2, 3, 4]
    assert spent(contacts.assign(visit=[0, 1, 1, 2]), "visits").tolist() == [0, 1, 1, 2]  # two contacts in passing
    with pytest.raises(ValueError, match="must be one of sim_time_s, host_time_s, visits, bytes, gradient_steps"):
        spent(contacts, "minutes")


def test_cost_to_an_accuracy_is_that_of_the_first_visit_with_it(contacts: pd.DataFrame) -> None:
    assert time_to_accuracy(contacts, 0.8) == 40.0
    assert time_to_accuracy(contacts, 0.5) == 10.0
    assert bytes_to_accuracy(contacts, 0.75) == 300
    assert to_accuracy(contacts, 0.9, "visits", "token_test_acc") == 4
    assert math.isnan(time_to_accuracy(contacts, 0.81))


def test_accuracy_at_equal_cost_is_the_last_one_known(contacts: pd.DataFrame) -> None:
    assert accuracy_at(contacts, 39.9) == 0.5
    assert accuracy_at(contacts, 40.0) == 0.8
    assert accuracy_at(contacts, 450, "bytes") == 0.7
    assert accuracy_at(contacts, 3, "visits", "token_test_acc") == 0.6
    assert math.isnan(accuracy_at(contacts, 5.0))  # nothing is known yet
    assert math.isnan(accuracy_at(contacts, 71.0))  # the run was over


def test_bands_are_students_intervals_of_the_curves(contacts: pd.DataFrame) -> None:
    second = contacts.assign(
        sim_time_s=contacts["sim_time_s"] - 5, personal_test_acc_mean=contacts["personal_test_acc_mean"] + 0.1
    )
    found = band([contacts, second], points=66)  # every second from 0 to 65
    row = found[np.isclose(found["sim_time_s"], 50.0)].iloc[0]
    low, high = stats.t.interval(0.95, 1, 0.85, stats.sem([0.8, 0.9]))
    assert (row["mean"], row["low"], row["high"]) == pytest.approx((0.85, low, high))
    assert found["sim_time_s"].min() == pytest.approx(10.0)  # from where both are known
    assert found["sim_time_s"].max() == pytest.approx(65.0)  # to where both are
    alone = band([contacts], "bytes", points=4)
    assert alone["low"].isna().all()
    assert alone["mean"].tolist() == [0.5, 0.8, 0.7]
    assert np.isnan(curve(contacts.iloc[:0], np.array([1.0]))).all()


def run(folder: Path, accuracy: float, algorithm: str = "fedavg") -> Path:
    folder.mkdir()
    (folder / "manifest.json").write_text('{"finished": true}')
    (folder / "scenario.toml").write_text("")
    summary = {"personal_test_acc_mean": accuracy, "token_test_acc": 0.5, "gradient_steps": 80, "clients": 4}
    (folder / "summary.json").write_text(json.dumps({**summary, "algorithm": algorithm}))
    contacts = {
        "visit": [1, 2],
        "sim_time_s": [3600.0, 7200.0],
        "bytes_down": [10**6] * 2,
        "bytes_up": [0, 0],
        "gradient_steps": [40, 40],
        "personal_test_acc_mean": [0.2, accuracy],
    }
    for name in ("contacts", "clients", "track", "graph"):
        pd.DataFrame(contacts).to_parquet(folder / f"{name}.parquet")
    return folder


def entry(root: Path, name: str, accuracies: list[float], algorithm: str = "fedavg") -> Entry:
    runs = {i: run(root / f"{name}{i}", a, algorithm) for i, a in enumerate(accuracies)}
    return Entry("task", name, runs, len(accuracies))


def test_better_is_claimed_only_beyond_chance(tmp_path: Path) -> None:
    noise = [0.00, 0.02, -0.01, 0.01, -0.02]
    good = entry(tmp_path, "good", [0.9 + n for n in noise])
    close = entry(tmp_path, "close", [0.895 + 0.5 * n for n in noise])
    bad = entry(tmp_path, "bad", [0.7 - n for n in noise])
    one = entry(tmp_path, "one", [0.99])
    assert better_than([good, close, bad, one]) == {"good": ["bad"], "close": ["bad"], "bad": [], "one": []}
    # The same by scipy, with Holm's factors 3, 2, 1.
    values = [list(c.values("personal_test_acc_mean").values()) for c in (good, close, bad)]
    p = [stats.ttest_rel(values[i], values[j]).pvalue for i, j in ((0, 1), (0, 2), (1, 2))]
    assert p[0] > 0.05
    assert sorted(p)[0] * 3 < 0.05
    assert sorted(p)[1] * 2 < 0.05


def test_holms_correction_withholds_what_a_single_test_would_claim(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = "abcdef"
    entries = [entry(tmp_path, n, list(0.8 + 0.02 * rng.normal(size=4))) for n in names]
    single = [
        stats.ttest_rel(*(list(c.values("personal_test_acc_mean").values()) for c in (a, b))).pvalue
        for i, a in enumerate(entries)
        for b in entries[i + 1 :]
    ]
    assert min(single) < 0.05 < min(single) * len(single)
    assert not any(better_than(entries).values())


def test_the_table_says_what_it_cost_to_get_there(tmp_path: Path) -> None:
    entries = [
        entry(tmp_path, "local", [0.8, 0.8], "local"),
        entry(tmp_path, "fedavg", [0.6, 0.9]),
        Entry("task", "ditto", {}, 2),
    ]
    assert usual_target(entries) == 0.72
    header, local, fedavg, ditto = compare_table(entries, 0.75)
    assert header[4] == "visits to 75 %"
    assert local[1:] == ["80.00 ± 0.00", "–", "20", "2", "80", "2", "2", "2 of 2", "2 of 2", "–"]
    assert fedavg[4:] == ["2", "80", "2", "2", "1 of 2", "2 of 2", "–"]
    assert ditto[1] == "not run"
