"""Tuning: try the grids of an experiment's columns, and choose hyper-parameters by validation accuracy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedmule.simulator.errors import UserError
from fedmule.simulator.runs.ending import ENDED
from fedmule.simulator.runs.folder import write_text
from fedmule.simulator.scenario.load import read_toml
from fedmule.simulator.studies.experiment import (
    Column,
    Experiment,
    Row,
    Tuned,
    experiments_folder,
    pairs,
    scenario_of_pair,
    study_of,
    with_keys,
)
from fedmule.simulator.studies.plan import Changes, Plan, Point

if TYPE_CHECKING:
    import pandas as pd

VALIDATED: Changes = {"learning.validation_share": 0.2, "learning.evaluate_contacts": False}


@dataclass(frozen=True)
class Trial:
    """A combination of a grid, and how well it did."""

    cell: str
    column: str
    choice: Changes
    validation_acc: float | None  # None if the run diverged
    chosen: bool


def grid(row: Row, column: Column) -> list[Changes]:
    """Every combination of the values to try."""
    values = {key: row.tune.get(key, tried) for key, tried in column.tune.items()}
    return [dict(zip(values, choice, strict=True)) for choice in itertools.product(*values.values())]


def plan_tuning(
    experiment: Experiment, seed: int, cells: Sequence[str] | None = None, columns: Sequence[str] | None = None
) -> Plan:
    """The grids of an experiment, with a seed of their own and validation data to choose by at the end of a run."""
    points = []
    for row, column in pairs(experiment, cells, columns):
        for choice in grid(row, column) if column.tune and row.tuned_as is None else ():
            scenario = scenario_of_pair(experiment, row, column, {**choice, **VALIDATED})
            every = scenario.stop.visits or scenario.learning.evaluate_every
            scenario = with_keys(scenario, "learning", evaluate_every=every).model_copy(update={"seed": seed})
            names = {"cell": row.cell, "column": column.name, "choice": describe_choice(choice), **choice}
            points.append(Point(scenario, row.scenario, names, seed))
    if not points:
        raise UserError(f"{experiment.name}: nothing to tune: none of these cells and columns has values to try")
    choices = tuple(dict.fromkeys(point.parameters["choice"] for point in points))
    study = study_of(experiment, points, (seed,), choice=choices)
    return Plan(study.model_copy(update={"name": f"{experiment.name} tuning"}), tuple(points))


def trials_of(plan: Plan, index: pd.DataFrame) -> list[Trial]:
    """The trials of every grid that has been run completely, from the index of the plan.

    The best validation accuracy is chosen; if all diverged, nothing is.
    """
    grids: dict[tuple[str, str], list[tuple[Changes, dict[Hashable, Any]]]] = {}
    for point, result in zip(plan.points, index.to_dict("records"), strict=True):
        names = ("cell", "column", "choice")
        choice = {key: value for key, value in point.parameters.items() if key not in names}
        grids.setdefault((point.parameters["cell"], point.parameters["column"]), []).append((choice, result))
    trials = []
    for (cell, column), tried in grids.items():
        if any(result["status"] not in ENDED for _, result in tried):
            continue
        scores = [validation_accuracy(result) for _, result in tried]
        ranks = [-1.0 if score is None else score for score in scores]
        best = ranks.index(max(ranks))
        for i, (choice, _) in enumerate(tried):
            trials.append(Trial(cell, column, choice, scores[i], i == best and scores[i] is not None))
    return trials


def validation_accuracy(result: Mapping[Hashable, Any]) -> float | None:
    """The validation accuracy of personal models at the end of a run; None if the run diverged."""
    accuracy = float(result["personal_validation_acc_mean"])
    return None if result["stopped_by"] == "diverged" or math.isnan(accuracy) else accuracy


def describe_choice(choice: Changes) -> str:
    """A choice in short, such as `step_size 0.1, beta 1.0`."""
    return ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in choice.items())


# --- tuned.toml -----------------------------------------------------------------------------------------------


def read_tuned(own: Path) -> Tuned:
    """What tuning chose: as shipped, replaced by the user's own choices where there are any."""
    found: Tuned = {}
    for file in (experiments_folder() / "tuned.toml", own):
        if file.is_file():
            for experiment, cells in read_toml(file).items():
                for cell, columns in cells.items():
                    found.setdefault(experiment, {}).setdefault(cell, {}).update(columns)
    return found


def write_tuned(own: Path, experiment: str, trials: Sequence[Trial]) -> None:
    """Enter the choices into the user's file, and keep the others there."""
    import tomli_w

    chosen = [trial for trial in trials if trial.chosen]
    if not chosen:
        return
    tuned = read_toml(own) if own.is_file() else {}
    for trial in chosen:
        tuned.setdefault(experiment, {}).setdefault(trial.cell, {})[trial.column] = trial.choice
    own.parent.mkdir(parents=True, exist_ok=True)
    write_text(own, tomli_w.dumps(tuned))
