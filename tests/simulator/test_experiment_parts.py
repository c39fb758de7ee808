"""Experiments of several parts, and the part of Table 1 that has the published budget."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_experiments import scenarios_of

from fedmule.analysis import load_study
from fedmule.simulator.cli import main
from fedmule.simulator.studies.experiment import (
    Gradients,
    load_experiment,
    pairs,
    plan_experiment,
    scenario_of_pair,
)

PARTS = """
title = "Two parts"
seeds = 2

[[parts]]
name = "long"
title = "Long runs"
text = "They take long."
why = "They are too long."
pooled = true
set = { "stop.visits" = 30, "learning.step_size" = 0.2 }

[[parts]]
name = "short"
title = "Short runs"

[[rows]]
part = "long"
cell = "long/near"
scenario = "smoke"
set = { "learning.active" = "visited", "learning.step_size" = 0.3 }
published = { local = 91.2 }

[[rows]]
part = "short"
cell = "near"
scenario = "smoke"
set = { "learning.active" = "visited", "stop.visits" = 4 }

[[columns]]
part = "long"
name = "local"
set = { "learning.algorithm" = "local" }

[[columns]]
part = "long"
name = "fedavg"
set = { "learning.algorithm" = "fedavg" }

[[columns]]
part = "short"
name = "fedavg"
set = { "learning.algorithm" = "fedavg", "learning.batch_size" = 3 }

[[columns]]
part = "short"
name = "apfl"
set = { "learning.algorithm" = "apfl" }
"""


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts.toml").write_text(PARTS)
    return "parts.toml"


def test_columns_change_the_rows_of_their_part(parts: str) -> None:
    scenarios = scenarios_of(plan_experiment(load_experiment(parts)))
    assert list(scenarios) == [("long/near", "local"), ("long/near", "fedavg"), ("near", "fedavg"), ("near", "apfl")]
    long, short = scenarios["long/near", "fedavg"][0], scenarios["near", "fedavg"][0]
    assert (long.stop.visits, long.learning.step_size) == (30, 0.3)  # of the part, and of the row
    assert (short.stop.visits, short.learning.batch_size) == (4, 3)
    assert long.learning.batch_size != 3
    only = pairs(load_experiment(parts), None, ["fedavg"])
    assert [row.cell for row, _ in only] == ["long/near", "near"]


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (('part = "long"\ncell', 'part = "lnog"\ncell'), [], "long/near is of part lnog; there are long, short"),
        (('part = "short"\nname = "apfl"', 'name = "apfl"'), [], "apfl has no part; there are long, short"),
        (('name = "short"', 'name = "long"'), [], "long is given twice"),
        (('name = "apfl"', 'name = "fedavg"'), [], "fedavg is given twice"),
        (("{ local = 91.2 }", "{ apfl = 91.2 }"), [], "long/near names a column apfl; there are local, fedavg"),
        (("", ""), ["--cells", "far"], "no cell is named far; there are long/near, near"),
        (("", ""), ["--cells", "near", "--columns", "local"], "no column is named local; there are fedavg, apfl"),
    ],
)
def test_mistakes_in_parts_are_explained(
    parts: str, change: tuple[str, str], arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(parts).write_text(PARTS.replace(*change, 1))
    assert main(["paper", parts, *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not Path("paper").exists()


def test_a_part_without_parts_is_refused(parts: str, capsys: pytest.CaptureFixture[str]) -> None:
    row = '[[rows]]\npart = "long"\ncell = "far"\nscenario = "smoke"\n[[columns]]\nname = "rwsadmm"\n'
    Path(parts).write_text(f'title = "No parts"\n{row}')
    assert main(["paper", parts]) == 2
    assert "far is of part long; there are no parts" in capsys.readouterr().err


def test_parts_have_tables_of_their_own_and_resume(parts: str, capfd: pytest.CaptureFixture[str]) -> None:
    long = ["paper", parts, "--cells", "long/near", "--seeds", "1", "--jobs", "1"]
    assert main([*long, "--columns", "local"]) == 0
    assert "Two parts: Long runs" in (first := capfd.readouterr()).out
    assert "Short runs" not in first.out
    assert main(long) == 0
    assert "2 runs, 1 of them done before" in capfd.readouterr().err
    page = Path("paper/parts/parts.md").read_text().split("\n## ")
    assert page[1].startswith("Long runs\n\nThey take long.\n")
    assert page[2].startswith("Short runs\n")
    assert "| near | fedavg | not run |" in page[2]
    runs = [run.summary for run in load_study("paper/parts").runs({"cell": "long/near", "column": "local"})]
    mean, pooled = (f"{100 * runs[0][f'personal_test_acc_{name}']:.2f}" for name in ("mean", "weighted"))
    lines = page[1].splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("| local"))
    assert [line.split()[1] for line in lines[at : at + 3]] == ["local", "pooled", "published"]
    assert [line.split()[3] for line in lines[at : at + 3]] == [mean, pooled, "91.20"]
    assert mean != pooled
    assert "They are too long." in page[1]
    assert "pooled" not in page[2]
    figures = sorted(file.name for file in Path("paper/parts").glob("*.png"))
    assert figures == ["parts-long-gradients.png", "parts-long-visits.png"]


# --- the part of Table 1 with the published budget ------------------------------------------------------------

PUBLISHED_CELLS = [row.cell for row in load_experiment("table1").rows if row.part == "published"]
WIDTHS = {"mnist": (100,), "cifar10": (50,), "synthetic": (20,)}  # of the published program's hidden layer


def test_the_published_part_has_the_published_budget_sizes_and_models() -> None:
    scenarios = scenarios_of(plan_experiment(load_experiment("table1"), PUBLISHED_CELLS))
    tasks = {"/".join(cell.split("/")[1:3]) for cell, _ in scenarios}
    assert tasks == {row.cell for row in load_experiment("table1").rows if row.part == "small"}
    for (cell, column), (scenario, *_) in scenarios.items():
        learning, data = scenario.learning, scenario.learning.dataset
        steps = 5_000 if cell.endswith("cifar10/cnn") else 200 * 20 * 5
        assert Gradients(scenario, {}).per_client() == steps, (cell, column)
        assert (learning.batch_size, learning.test_share) == (20, 0.25)
        assert scenario.clients.count == (100 if data.kind == "synthetic" else 20)
        assert learning.model.kind == cell.split("/")[2]
        if learning.model.kind == "mlp":
            assert learning.model.hidden == WIDTHS[data.kind]
        if data.kind == "synthetic":
            assert (data.alpha, data.beta, data.samples, data.size_factor) == (0.5, 0.5, (250, 10**9), 5)
        if cell.endswith("split"):
            assert learning.partition.kind == "published"
    assert {len(of) for (cell, _), of in scenarios.items() if not cell.endswith("cnn")} == {3}


def test_the_published_part_has_the_default_of_rwsadmm_and_the_other_part_has_slack() -> None:
    scenarios = scenarios_of(plan_experiment(load_experiment("table1"), None, ["rwsadmm", "together"], 1))
    for (cell, column), (scenario,) in scenarios.items():
        keys = scenario.learning.algorithm.model_dump(exclude_unset=True)
        if not cell.startswith("published"):
            assert keys["variant"] == "slack"
        else:
            assert keys == {"kind": "rwsadmm", **({"try_at": 0} if column == "together" else {})}


@pytest.mark.parametrize("column", ["local", "fedavg_ft", "ditto", "together"])
def test_clients_really_take_20000_steps(column: str, tmp_path: Path) -> None:
    from fedmule.simulator.runs.run import run_scenario

    experiment = load_experiment("table1")
    ((row, chosen),) = pairs(experiment, ["published/synthetic/mlr"], [column])
    near = {"clients.count": 6, "clients.mobility.neighbour_range_m": 900}
    small = {**near, "stop.visits": 1200, "learning.dataset.features": 5}  # 200 visits of each
    row = row.model_copy(update={"set": {**row.set, **small}})
    scenario = scenario_of_pair(experiment, row, chosen, {})
    run_scenario(scenario, tmp_path / "run", quiet=True)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["gradient_steps"] / summary["clients"] == 20_000
