"""Experiments: what ships is valid and fair, tuning is blind to test data, and errors say what is wrong."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedmule.analysis import load_study
from fedmule.simulator.cli import main
from fedmule.simulator.errors import UserError
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.learning import Learning
from fedmule.simulator.scenario.load import load_scenario, packaged_scenarios
from fedmule.simulator.scenario.messages import tables_in
from fedmule.simulator.studies import tuning
from fedmule.simulator.studies.experiment import (
    Gradients,
    load_experiment,
    packaged_experiments,
    pairs,
    plan_experiment,
    scenario_of_pair,
)
from fedmule.simulator.studies.plan import Plan
from fedmule.simulator.studies.tuning import grid, plan_tuning, read_tuned, trials_of, write_tuned

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


def scenarios_of(plan: Plan) -> dict[tuple[str, str], list[Scenario]]:
    """The scenarios of a plan by cell and column, a seed each."""
    found: dict[tuple[str, str], list[Scenario]] = {}
    for point in plan.points:
        found.setdefault((point.parameters["cell"], point.parameters["column"]), []).append(point.scenario)
    return found


# --- what ships ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(packaged_experiments()))
def test_every_column_of_every_row_takes_the_same_number_of_gradient_steps(name: str) -> None:
    experiment = load_experiment(name)
    wanted = {row.cell: Gradients(load_scenario(row.scenario, row.set), {}).per_client() for row in experiment.rows}
    for point in plan_experiment(experiment).points:
        assert Gradients(point.scenario, {}).per_client() == pytest.approx(wanted[point.parameters["cell"]], rel=0.02)


@pytest.mark.parametrize("name", sorted(packaged_experiments()))
def test_grids_are_small_valid_and_of_known_keys(name: str) -> None:
    experiment = load_experiment(name)
    for row, column in pairs(experiment):
        choices = grid(row, column)
        assert len(choices) <= 9
        for choice in (choices[0], choices[-1]):
            scenario_of_pair(experiment, row, column, choice)  # raises where it is not valid
        assert set(row.tune) <= {key for column in experiment.columns for key in column.tune}


def test_experiments_are_not_scenarios() -> None:
    assert {"paper/mnist_mlr", "paper/users_100", "collaboration/mnist_mlp_50"} <= set(packaged_scenarios())
    assert not any(name.startswith("experiments") for name in packaged_scenarios())
    assert {"table1", "users", "beta", "kappa", "collaboration"} <= set(packaged_experiments())


def test_choices_that_ship_belong_to_experiments_that_ship() -> None:
    for name, cells in read_tuned(Path("no own choices")).items():
        experiment = load_experiment(name)
        for cell, columns in cells.items():
            for row, column in pairs(experiment, [cell], list(columns)):
                assert columns[column.name] in grid(row, column)


def test_table_1_is_the_papers() -> None:
    rows = {row.cell: row for row in load_experiment("table1").rows if row.part == "small"}
    assert rows["mnist/mlr"].published["rwsadmm"] == 98.63
    assert rows["cifar10/cnn"].published["apfl"] == 66.23
    assert rows["synthetic/mlp"].published_s["pfedme"] == 4240
    assert all(len(row.published) == len(row.published_s) == 6 for row in rows.values())
    derived = scenarios_of(plan_experiment(load_experiment("table1"), None, ["derived"], 1))
    (mlp,), (mlr,) = derived["cifar10/mlp", "derived"], derived["mnist/mlr", "derived"]
    assert (mlp.learning.algorithm.beta, mlp.learning.algorithm.kappa) == (100, 1)
    assert mlr.stop.visits == 2000


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

    network = {"kind": "mlp", "hidden": [4]}  # fedper and others need a layer below the last
    scenario = small(learning={"local_steps": 7, "model": network, **keys})
    assert Gradients(scenario, {}).per_visit() == Simulation(scenario).learner.algorithm.steps


# --- from a file to its runs ----------------------------------------------------------------------------------------


def test_a_column_changes_the_rows_scenario_and_gets_its_steps_and_visits(tiny: str) -> None:
    scenarios = scenarios_of(plan_experiment(load_experiment(tiny)))
    assert len(scenarios) == 6
    assert [scenario.seed for scenario in scenarios["near", "fedavg"]] == [0, 1]
    (far,) = scenarios["far", "fedavg"]
    assert (far.learning.algorithm.kind, far.learning.step_size, far.seed) == ("fedavg", 0.2, 0)
    assert (far.log.track, far.log.graph_every) == (False, 0)
    star = scenarios["near", "ditto_star"][0]
    assert star.learning.local_steps == 5  # of two gradients each
    assert (star.stop.visits, star.learning.evaluate_every) == (8, 3)  # 30 visits of one client: 7.5 rounds of four


def test_who_takes_part_must_be_known_where_columns_differ_in_it(tiny: str) -> None:
    Path(tiny).write_text(
        TINY.replace('set = { "learning.algorithm" = "fedavg" }', 'set = { "learning.active" = "all" }')
    )
    with pytest.raises(UserError, match="tiny, near: gradient steps cannot be made equal"):
        plan_experiment(load_experiment(tiny))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("seeds = 2", "seeds = 0"), "seeds = 0: must be at least 1"),
        (("cell = ", "cel = "), "unknown key; did you mean cell?"),
        (('cell = "far"', 'cell = "near"'), "near is given twice"),
        (("{ fedavg = 91.2 }", "{ fedavgg = 91.2 }"), "near names a column fedavgg"),
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
        (["tabel1"], "no experiment of that name ships (beta, collaboration, heads, kappa"),
        (["tiny.toml", "--cells", "near,fra"], "tiny: no cell is named fra; there are near, far"),
        (["tiny.toml", "--columns", "x"], "tiny: no column is named x; there are rwsadmm, fedavg, ditto_star"),
        (["tune", "tiny.toml", "--cells", "x"], "no cell is named x"),
        (["tunes", "tiny.toml"], "must be fedmule paper NAME or fedmule paper tune NAME"),
    ],
)
def test_errors_for_unknown_names_list_the_known_ones(
    tiny: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["paper", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not Path("paper").exists()


# --- tuning -------------------------------------------------------------------------------------------------------


def index_for(plan: Plan, accuracy: Callable[[Scenario], float], stopped_by: str = "visits") -> pd.DataFrame:
    """The index of a plan as if it had been run: test accuracy is best where validation accuracy is worst."""
    good = [accuracy(point.scenario) for point in plan.points]
    results = {"personal_validation_acc_mean": good, "personal_test_acc_mean": [1 - acc for acc in good]}
    return pd.DataFrame({"status": "done", "stopped_by": stopped_by, **results})


def small_steps(scenario: Scenario) -> float:
    """Best at batches of 10 and small steps."""
    return 0.9 - abs(scenario.learning.batch_size - 10) / 100 - scenario.learning.step_size


def test_tuning_chooses_by_validation_data_with_a_seed_of_its_own(tiny: str) -> None:
    experiment, own = load_experiment(tiny), Path("tuned.toml")
    own.write_text(
        '[other.cell.column]\n"learning.algorithm.beta" = 3\n[tiny.far.rwsadmm]\n"learning.algorithm.beta" = 2\n'
    )
    plan = plan_tuning(experiment, 1000)
    trials = trials_of(plan, index_for(plan, small_steps))
    write_tuned(own, experiment.name, trials)
    assert len(plan.points) == len(trials) == 12
    scenarios = [point.scenario for point in plan.points]
    kinds = {(s.seed, s.learning.validation_share, s.learning.algorithm.kind) for s in scenarios}
    assert kinds == {(1000, 0.2, "fedavg")}
    written = tomllib.loads(own.read_text())
    assert written["tiny"]["near"]["fedavg"] == {"learning.step_size": 0.1, "learning.batch_size": 10}
    assert written["tiny"]["far"]["fedavg"] == {"learning.step_size": 0.01, "learning.batch_size": 10}
    assert written["other"] == {"cell": {"column": {"learning.algorithm.beta": 3}}}
    tuned = scenarios_of(plan_experiment(experiment, tuned=read_tuned(own)))
    far = tuned["far", "fedavg"][0]
    assert (far.learning.step_size, far.learning.batch_size, far.learning.validation_share) == (0.01, 10, 0)
    assert tuned["far", "rwsadmm"][0].learning.algorithm.beta == 2
    assert tuned["near", "rwsadmm"][0].learning.algorithm.beta is None


def test_your_own_choices_override_those_that_ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "experiments_folder", lambda: tmp_path)
    (tmp_path / "tuned.toml").write_text("[a.b]\nc = { x = 1 }\nd = { x = 2 }\n")
    (tmp_path / "own.toml").write_text("[a.b]\nd = { x = 3 }\n")
    assert read_tuned(tmp_path / "own.toml") == {"a": {"b": {"c": {"x": 1}, "d": {"x": 3}}}}


def test_nothing_is_chosen_where_all_diverge(tiny: str) -> None:
    experiment = load_experiment(tiny)
    plan = plan_tuning(experiment, 1000)
    trials = trials_of(plan, index_for(plan, small_steps, "diverged"))
    assert len(trials) == 12
    assert not any(trial.chosen for trial in trials)
    write_tuned(Path("tuned.toml"), experiment.name, trials)
    assert not Path("tuned.toml").exists()


def test_nothing_is_chosen_from_a_grid_that_is_not_complete(tiny: str) -> None:
    plan = plan_tuning(load_experiment(tiny), 1000)
    index = index_for(plan, small_steps)
    index.loc[0, "status"] = "failed"
    trials = trials_of(plan, index)
    assert {trial.cell for trial in trials} == {"far"}
    assert sum(trial.chosen for trial in trials) == 1


def test_tuning_without_grids_says_so(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["paper", "tune", tiny, "--columns", "rwsadmm"]) == 2
    assert "tiny: nothing to tune" in capsys.readouterr().err


# --- from a file to its folder -------------------------------------------------------------------------------------


def test_an_experiment_from_file_to_tables_and_figures(
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
    assert costs["mnist", "rwsadmm"][2:] == ["not", "run", "0", "of", "2,", "2", "failed"]
    assert costs["far", "rwsadmm"][3:5] == ["(1", "seed)"]
    written = Path("paper/tiny/tiny.md").read_text()
    assert "| near | fedavg | not run | 91.20 |" in written
    for figure in ("tiny-visits.png", "tiny-gradients.png"):
        assert f"({figure})" in written
        assert Path("paper/tiny", figure).stat().st_size > 10_000

    study = load_study("paper/tiny")
    assert study.parameters == ["column", "cell", "scenario"]
    assert study.free() == ["column", "cell"]
    assert len(study.index) == 3 * (2 + 1 + 2)
    status = study.index.groupby(["cell", "column"])["status"].agg(["first", "size"])
    assert tuple(status.loc[("near", "rwsadmm")]) == ("done", 2)
    assert tuple(status.loc[("near", "fedavg")]) == ("missing", 2)  # of a column not asked for
    assert tuple(status.loc[("far", "ditto_star")]) == ("done", 1)
    assert tuple(status.loc[("mnist", "rwsadmm")]) == ("failed", 2)
    assert [run.scenario["seed"] for run in study.runs({"cell": "near", "column": "rwsadmm"})] == [0, 1]

    monkeypatch.setattr("fedmule.simulator.studies.batch.run_batch", None)  # --report runs nothing
    assert main(["paper", tiny, "--columns", "rwsadmm,ditto_star", "--report"]) == 0
    reported = capfd.readouterr().out.replace("missing", "failed")  # it does not try what failed
    assert [line.split() for line in reported.splitlines()][3:5] == lines[3:5]
    assert reported.count("2 failed") == first.out.count("2 failed") > 0
    for command in ("report", "replay"):
        assert main([command, "paper/tiny"]) == 0
    assert Path("paper/tiny/figures/heat-personal_test_acc_mean.png").exists()


@pytest.mark.filterwarnings("error::UserWarning")  # figures whose labels do not fit
def test_tuning_is_a_study_too(tiny: str, capfd: pytest.CaptureFixture[str]) -> None:
    Path(tiny).write_text(TINY.replace('"stop.visits" = 30', '"stop.visits" = 4').replace("[5, 10, 20]", "[5, 10]"))
    assert main(["paper", "tune", tiny, "--cells", "near", "--jobs", "1"]) == 0
    out = capfd.readouterr().out
    assert out.count("chosen") == 1
    assert "written to paper/tuned.toml" in out
    study = load_study("paper/tiny/tuning")
    assert list(study.done["choice"])[:2] == ["step_size 0.1, batch_size 5", "step_size 0.1, batch_size 10"]
    assert list(study.done["learning.step_size"]) == [0.1, 0.1, 0.3, 0.3]
    best = study.done.loc[study.done["personal_validation_acc_mean"].idxmax()]
    chosen = tomllib.loads(Path("paper/tuned.toml").read_text())["tiny"]["near"]["fedavg"]
    assert chosen == {key: best[key] for key in ("learning.step_size", "learning.batch_size")}
    for command in ("report", "replay"):
        assert main([command, "paper/tiny/tuning"]) == 0
