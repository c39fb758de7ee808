"""Runs loaded as tables: their columns are those that the docs list."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import fedmule
from fedmule.analysis import Run, load_run, load_study
from fedmule.analysis.plots import draw_run
from fedmule.simulator.runs.columns import SUMMARY, TABLES
from fedmule.simulator.runs.run import run_scenario
from fedmule.simulator.scenario import Scenario

CONTACTS = [
    *("visit", "client", "sim_time_s", "host_time_s", "vehicle", "vehicle_x_m", "vehicle_y_m"),
    *("travel_s", "airtime_s", "compute_s", "neighbours", "active", "delivered", "bytes_down", "bytes_up"),
    *("gradient_steps", "personal_test_acc_mean", "personal_test_acc_weighted", "token_test_acc", "train_loss"),
    *("violation_max", "violation_rms", "lagrangian", "lyapunov", "token_step_norm", "kappa"),
]
CLIENTS = [
    *("visit", "sim_time_s", "client", "test_acc", "test_samples", "visits", "gradient_steps"),
    *("bytes_down", "bytes_up"),
]


@pytest.fixture
def run(small: Callable[..., Scenario], tmp_path: Path) -> Run:
    run_scenario(small(), str(tmp_path / "run"))
    return load_run(tmp_path / "run")


def test_columns_that_scripts_rely_on(run: Run) -> None:
    assert set(CONTACTS) <= set(run.contacts.columns)
    assert set(CLIENTS) <= set(run.clients.columns)
    assert list(run.track.columns) == ["sim_time_s", "node", "id", "x_m", "y_m"]
    assert list(run.graph.columns) == ["visit", "sim_time_s", "a", "b"]
    evaluated = run.contacts["token_test_acc"].notna() & (run.contacts["gradient_steps"] > 0)  # somebody took part
    assert evaluated.any()
    for column in CONTACTS:
        assert run.contacts.loc[evaluated, column].notna().all(), column


DOCS = Path(__file__).parents[2] / "docs"


def test_tables_and_summary_have_the_columns_of_the_table_of_columns(run: Run) -> None:
    for name, columns in TABLES.items():
        assert list(getattr(run, name).columns) == [column.name for column in columns]
    assert list(run.summary) == [column.name for column in SUMMARY]


def test_documented_columns_of_a_studys_index(run: Run, tmp_path: Path) -> None:
    text = (DOCS / "studies.md").read_text(encoding="utf-8").split("The columns of the index: ")[1].split("\n\n")[0]
    names = re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", text))
    values = {"vehicle.speed_mps": [5]}
    fedmule.study("smoke", values, seeds=1, set={"stop.visits": 2}, out=tmp_path / "study", jobs=1)
    index = load_study(tmp_path / "study").index
    summary = [key for key in run.summary if key not in ("name", "seed")]
    assert list(index.columns) == [*names[:4], "vehicle.speed_mps", *names[4:], *summary]


def test_graph_at_a_visit(run: Run) -> None:
    graph = run.graph_at(12)
    edges = run.graph[run.graph["visit"] == 10]
    assert graph.number_of_nodes() == 8
    assert {tuple(sorted(e)) for e in graph.edges} == {tuple(e) for e in edges[["a", "b"]].to_numpy()}
    assert run.graph_at(1).number_of_edges() == 0


def test_a_folder_that_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="not a run folder"):
        load_run(tmp_path)


def test_the_overview_of_a_run(run: Run, tmp_path: Path) -> None:
    figure = draw_run(run)
    figure.savefig(tmp_path / "run.png")
    assert (tmp_path / "run.png").stat().st_size > 10_000
    map_axes, curve_axes = figure.axes
    assert map_axes.get_xlabel() == "x (m)"
    x = curve_axes.lines[0].get_xdata()
    assert list(x) == pytest.approx(list(run.contacts["sim_time_s"] / 3600))
