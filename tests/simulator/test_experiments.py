"""Comparisons: what ships is valid and fair, tuning is blind to test data, and the command tells what is wrong."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from fedmule.simulator.cli import main
from fedmule.simulator.errors import UserError
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.learning import Learning
from fedmule.simulator.scenario.load import load_scenario, packaged_scenarios
from fedmule.simulator.scenario.messages import tables_in
from fedmule.simulator.studies import experiment as experiments
from fedmule.simulator.studies.batch import Failure, run_folder
from fedmule.simulator.studies.experiment import (
    gradients_per_client,
    gradients_per_visit,
    grid,
    load_experiment,
    packaged_experiments,
    plan,
    read_tuned,
    scenario_of_entry,
    tune,
)
from fedmule.simulator.studies.workers import Engine

TINY = """
title = "A small comparison"
seeds = 2

[[rows]]
cell = "near"
scenario = "smoke"
set = { "learning.active" = "visited", "stop.visits" = 30 }
published = { fedavg = 91.2 }

[[rows]]
cell = "far"
scenario = "smoke"
set = { "learning.active" = "visited", "stop.visits" = 30, "learning.dataset.beta" = 2 }
columns.fedavg = { "learning.step_size" = 0.2 }
tune = { "learning.step_size" = [0.01, 0.02] }
seeds = 1

[[columns]]
name = "rwsadmm"

[[columns]]
name = "fedavg"
set = { "learning.algorithm" = "fedavg" }
tune = { "learning.step_size" = [0.1, 0.3], "learning.batch_size" = [5, 10, 20] }

[[columns]]
name = "ditto_star"
set = { "learning.algorithm" = "ditto", "learning.server" = "star", "learning.active" = 4 }
"""


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    return "tiny.toml"


# --- what ships ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(packaged_experiments()))
def test_every_column_of_every_row_takes_the_same_number_of_gradient_steps(name: str) -> None:
    experiment = load_experiment(name)
    wanted = {row.cell: gradients_per_client(load_scenario(row.scenario, row.set)) for row in experiment.rows}
    for entry in plan(experiment):
        for scenario in entry.scenarios:
            assert gradients_per_client(scenario) == pytest.approx(wanted[entry.row.cell], rel=0.02)


@pytest.mark.parametrize("name", sorted(packaged_experiments()))
def test_grids_are_small_valid_and_of_known_keys(name: str) -> None:
    experiment = load_experiment(name)
    for entry in plan(experiment, seeds=1):
        points = grid(entry.row, entry.column)
        assert len(points) <= 9
        for choice in (points[0], points[-1]):
            scenario_of_entry(experiment, entry.row, entry.column, choice)  # raises where it is not valid
        assert set(entry.row.tune) <= {key for column in experiment.columns for key in column.tune}


def test_experiments_are_not_scenarios() -> None:
    assert {"paper/mnist_mlr", "paper/users_100", "collaboration/mnist_mlp_50"} <= set(packaged_scenarios())
    assert not any(name.startswith("experiments") for name in packaged_scenarios())
    assert {"table1", "users", "beta", "kappa", "collaboration"} <= set(packaged_experiments())


def test_choices_that_ship_belong_to_experiments_that_ship() -> None:
    for name, cells in read_tuned(Path("no own choices")).items():
        experiment = load_experiment(name)
        for cell, columns in cells.items():
            for entry in plan(experiment, [cell], list(columns), 1):
                assert columns[entry.column.name] in grid(entry.row, entry.column)


def test_table_1_is_the_papers() -> None:
    rows = {row.cell: row for row in load_experiment("table1").rows}
    assert rows["mnist/mlr"].published["rwsadmm"] == 98.63
    assert rows["cifar10/cnn"].published["apfl"] == 66.23
    assert rows["synthetic/mlp"].published_s["pfedme"] == 4240
    assert all(len(row.published) == len(row.published_s) == 6 for row in rows.values())
    derived = {entry.row.cell: entry.scenarios[0] for entry in plan(load_experiment("table1"), None, ["derived"], 1)}
    assert (derived["cifar10/mlp"].learning.algorithm.beta, derived["cifar10/mlp"].learning.algorithm.kappa) == (100, 1)
    assert derived["mnist/mlr"].stop.visits == 2000


ALGORITHMS = [{"algorithm": kind} for kind in tables_in(Learning.model_fields["algorithm"].annotation) if kind != "own"]
ALGORITHMS += [
    {"algorithm": {"kind": "rwsadmm", "variant": "derived"}},
    {"algorithm": {"kind": "rwsadmm", "variant": "printed"}},
    {"algorithm": {"kind": "per_fedavg", "variant": "hessian_free"}},
    {"algorithm": {"kind": "pfedme", "inner_steps": 3}},
    {"algorithm": {"kind": "local", "reference": "walkman"}},
]


@pytest.mark.parametrize("keys", ALGORITHMS, ids=str)
def test_gradients_are_counted_as_the_algorithms_take_them(
    keys: dict[str, Any], small: Callable[..., Scenario]
) -> None:
    from fedmule.simulator.engine import Simulation

    scenario = small(learning={"local_steps": 7, **keys})
    assert gradients_per_visit(scenario.learning) == Simulation(scenario).learner.algorithm.steps


# --- from a file to its runs ----------------------------------------------------------------------------------------


def test_a_column_changes_the_rows_scenario_and_gets_its_steps_and_visits(tiny: str) -> None:
    entries = {(e.row.cell, e.column.name): e for e in plan(load_experiment(tiny))}
    assert len(entries) == 6
    assert [s.seed for s in entries["near", "fedavg"].scenarios] == [0, 1]
    (far,) = entries["far", "fedavg"].scenarios
    assert (far.learning.algorithm.kind, far.learning.step_size, far.seed) == ("fedavg", 0.2, 0)
    assert (far.log.track, far.log.graph_every) == (False, 0)
    star = entries["near", "ditto_star"].scenarios[0]
    assert star.learning.local_steps == 5  # of two gradients each
    assert (star.stop.visits, star.learning.evaluate_every) == (8, 3)  # 30 visits of one client: 7.5 rounds of four


def test_who_takes_part_must_be_known_where_columns_differ_in_it(tiny: str) -> None:
    Path(tiny).write_text(
        TINY.replace('set = { "learning.algorithm" = "fedavg" }', 'set = { "learning.active" = "all" }')
    )
    with pytest.raises(UserError, match="tiny, near: gradient steps cannot be made equal"):
        plan(load_experiment(tiny))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("seeds = 2", "seeds = 0"), "seeds = 0: must be at least 1"),
        (("cell = ", "cel = "), "unknown key; did you mean cell?"),
        (('cell = "far"', 'cell = "near"'), "near is there twice"),
        (("{ fedavg = 91.2 }", "{ fedavgg = 91.2 }"), "near speaks of a column fedavgg"),
        (('"smoke"', '"smke"'), "tiny, near: smke: no such file"),
        (('"learning.algorithm"', '"learning.algorithms"'), "did you mean algorithm?"),
        (("title", "title ="), "not valid TOML"),
    ],
)
def test_mistakes_in_a_file_are_explained(
    tiny: str, change: tuple[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(tiny).write_text(TINY.replace(*change))
    assert main(["paper", tiny]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tabel1"], "no experiment of that name ships (beta, collaboration, kappa"),
        (["tiny.toml", "--cells", "near,fra"], "tiny: no cell is named fra; there are near, far"),
        (["tiny.toml", "--columns", "x"], "tiny: no column is named x; there are rwsadmm, fedavg, ditto_star"),
        (["tune", "tiny.toml", "--cells", "x"], "no cell is named x"),
        (["tunes", "tiny.toml"], "must be fedmule paper NAME or paper tune NAME"),
    ],
)
def test_unknown_names_are_errors_that_tell_the_known_ones(
    tiny: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["paper", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not Path("paper").exists()


# --- tuning -------------------------------------------------------------------------------------------------------


@pytest.fixture
def scores(monkeypatch: pytest.MonkeyPatch) -> list[Scenario]:
    """Instead of running, write summaries: validation accuracy is best at batches of 10 and small steps, test
    accuracy where validation is worst."""
    asked: list[Scenario] = []

    def run_batch(scenarios: Iterable[Scenario], root: Path, engine: Engine | None = None) -> list[Failure]:
        for scenario in scenarios:
            asked.append(scenario)
            learning = scenario.learning
            good = 0.9 - abs(learning.batch_size - 10) / 100 - learning.step_size
            folder = run_folder(root, scenario)
            folder.mkdir(parents=True)
            accuracies = {"personal_validation_acc_mean": good, "personal_test_acc_mean": 1 - good}
            (folder / "summary.json").write_text(json.dumps({"finished": True, "stopped_by": "visits", **accuracies}))
        return []

    monkeypatch.setattr(experiments, "run_batch", run_batch)
    return asked


def test_tuning_chooses_by_validation_data_with_a_seed_of_its_own(tiny: str, scores: list[Scenario]) -> None:
    experiment, out = load_experiment(tiny), Path("out")
    out.mkdir()
    (out / "tuned.toml").write_text(
        '[other.cell.column]\n"learning.algorithm.beta" = 3\n[tiny.far.rwsadmm]\n"learning.algorithm.beta" = 2\n'
    )
    tried, failures = tune(experiment, plan(experiment), 1000, out)
    assert not failures
    assert len(scores) == len(tried) == 12
    assert {(s.seed, s.learning.validation_share, s.learning.algorithm.kind) for s in scores} == {(1000, 0.2, "fedavg")}
    written = tomllib.loads((out / "tuned.toml").read_text())
    assert written["tiny"]["near"]["fedavg"] == {"learning.step_size": 0.1, "learning.batch_size": 10}
    assert written["tiny"]["far"]["fedavg"] == {"learning.step_size": 0.01, "learning.batch_size": 10}
    assert written["other"] == {"cell": {"column": {"learning.algorithm.beta": 3}}}
    entries = {(e.row.cell, e.column.name): e for e in plan(experiment, tuned=read_tuned(out / "tuned.toml"))}
    far = entries["far", "fedavg"].scenarios[0]
    assert (far.learning.step_size, far.learning.batch_size, far.learning.validation_share) == (0.01, 10, 0)
    assert entries["far", "rwsadmm"].scenarios[0].learning.algorithm.beta == 2
    assert entries["near", "rwsadmm"].chosen == {}


def test_ones_own_choices_beat_those_that_ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "_folder", lambda: tmp_path)
    (tmp_path / "tuned.toml").write_text("[a.b]\nc = { x = 1 }\nd = { x = 2 }\n")
    (tmp_path / "own.toml").write_text("[a.b]\nd = { x = 3 }\n")
    assert read_tuned(tmp_path / "own.toml") == {"a": {"b": {"c": {"x": 1}, "d": {"x": 3}}}}


def test_nothing_is_chosen_where_all_diverge(tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_batch(scenarios: Iterable[Scenario], root: Path, engine: Engine | None = None) -> list[Failure]:
        for scenario in scenarios:
            folder = run_folder(root, scenario)
            folder.mkdir(parents=True)
            ended = {"finished": True, "stopped_by": "diverged", "personal_validation_acc_mean": 0.5}
            (folder / "summary.json").write_text(json.dumps(ended))
        return []

    monkeypatch.setattr(experiments, "run_batch", run_batch)
    experiment = load_experiment(tiny)
    tried, _ = tune(experiment, plan(experiment), 1000, Path("out"))
    assert not any(point.chosen for point in tried)
    assert not Path("out/tuned.toml").exists()


# --- the whole ----------------------------------------------------------------------------------------------------


def test_a_comparison_from_file_to_tables_and_figures(
    tiny: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FEDMULE_DATA", "nothing here")
    mnist = '\n[[rows]]\ncell = "mnist"\nscenario = "collaboration/mnist_mlr"\n'
    Path(tiny).write_text(TINY.replace("\n[[columns]]", mnist + "\n[[columns]]", 1))
    assert main(["paper", tiny, "--columns", "rwsadmm,ditto_star", "--jobs", "1"]) == 1
    first = capfd.readouterr()
    assert first.err.count("MNIST is not on this computer yet: run `fedmule data mnist` first") == 1
    assert "4 runs failed: learning.dataset" in first.err
    assert "Traceback" not in first.err
    lines = [line.split() for line in first.out.splitlines()]
    assert ["personal", "test", "accuracy,", "%", "near", "far", "mnist"] in lines
    costs = {(line[0], line[1]): line for line in lines if line and line[0] in ("near", "far", "mnist")}
    assert costs["mnist", "rwsadmm"][2:] == ["not", "run", "0", "of", "2"]
    assert costs["far", "rwsadmm"][3:5] == ["(1", "seed)"]
    written = Path("paper/tiny.md").read_text()
    assert "| near | fedavg | not run | 91.20 |" in written
    for figure in ("tiny-visits.png", "tiny-gradients.png"):
        assert f"({figure})" in written
        assert Path("paper", figure).stat().st_size > 10_000

    monkeypatch.setattr("fedmule.simulator.studies.batch.run_batch", None)  # --report runs nothing
    assert main(["paper", tiny, "--columns", "rwsadmm,ditto_star", "--report"]) == 0
    assert capfd.readouterr().out == first.out
