"""Comparisons as data: rows (scenarios) × columns (what is changed in them), at equal gradient steps per client."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from fedmule.simulator.errors import ScenarioError, UserError
from fedmule.simulator.runs.folder import is_done, write_text
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.keys import Count, Part
from fedmule.simulator.scenario.learning import Learning
from fedmule.simulator.scenario.load import load_scenario, read_toml
from fedmule.simulator.scenario.messages import problems_of
from fedmule.simulator.scenario.parts import Plugins, choose
from fedmule.simulator.studies.batch import Failure, run_batch, run_folder
from fedmule.simulator.studies.workers import Engine

Changes = dict[str, Any]  # values by the dotted keys of a scenario
Grid = dict[str, Annotated[tuple[Any, ...], Field(strict=False, min_length=1)]]  # the values to try, likewise
Tuned = dict[str, dict[str, dict[str, Changes]]]  # experiment -> cell -> column -> what was chosen

QUIET: Changes = {"log.track": False, "log.graph_every": 0}


class Row(Part):
    """One task: a scenario, and what is published on it."""

    cell: str = Field(description="its name in the table, such as mnist/mlr")
    scenario: str = Field(description="a scenario that ships, or a file")
    set: Changes = Field(default={}, description="keys of the scenario that differ")
    columns: dict[str, Changes] = Field(default={}, description="more keys that differ, for one column each")
    tuned_as: str | None = Field(default=None, description="the cell whose choices of hyper-parameters hold here too")
    tune: Grid = Field(default={}, description="values to try here, instead of the column's, of keys it tunes")
    seeds: Count | None = Field(default=None, description="seeds, if other than the experiment's")
    published: dict[str, float] = Field(default={}, description="published accuracy in % by column")
    published_s: dict[str, float] = Field(default={}, description="published run time in seconds by column")


class Column(Part):
    """One contender: what is changed in every row's scenario."""

    name: str
    set: Changes = Field(default={}, description="keys of the scenario that differ")
    tune: Grid = Field(default={}, description="values to try when tuning, by key")
    published_as: str | None = Field(default=None, description="the column whose published figures are its own too")


class Experiment(Part):
    """A comparison.

    The row's scenario says how many gradient steps a client takes in all, and every column takes as many: unless
    a column sets them, its `learning.local_steps`, `stop.visits` and with them `learning.evaluate_every` follow.
    """

    name: str = ""
    title: str
    text: str = ""
    why: str = Field(default="", description="why our figures differ from those published")
    seeds: Count = 3
    equal_steps: bool = Field(default=True, description="false: equal per visit, to the scenario's own end")
    rows: Annotated[tuple[Row, ...], Field(strict=False, min_length=1)]
    columns: Annotated[tuple[Column, ...], Field(strict=False, min_length=1)]


@dataclass(frozen=True)
class Entry:
    """A row × column of the table: its runs, one per seed."""

    row: Row
    column: Column
    chosen: Changes  # by tuning
    scenarios: tuple[Scenario, ...]


@dataclass(frozen=True)
class Tried:
    """A point of a grid, as tuning found it."""

    entry: Entry
    choice: Changes
    validation_acc: float | None  # None: diverged
    chosen: bool


def packaged_experiments() -> dict[str, Path]:
    """The experiments that ship, by name."""
    return {file.stem: file for file in sorted(_folder().glob("*.toml")) if file.stem != "tuned"}


def load_experiment(name: str) -> Experiment:
    """The experiment of a name, or in a file."""
    packaged = packaged_experiments()
    path = packaged.get(name, Path(name))
    if not path.is_file():
        raise UserError(f"{name}: no such file, and no experiment of that name ships ({', '.join(packaged)})")
    try:
        experiment = Experiment.model_validate({"name": path.stem, **read_toml(path)})
    except ValidationError as error:
        raise ScenarioError(str(path), problems_of(error, Experiment)) from None
    _check_names(experiment, str(path))
    return experiment


def plan(
    experiment: Experiment,
    cells: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    seeds: int | None = None,
    tuned: Tuned | None = None,
) -> list[Entry]:
    """What an experiment runs: all rows × columns, or those named."""
    rows = _named({row.cell: row for row in experiment.rows}, cells, "cell", experiment.name)
    contenders = _named({column.name: column for column in experiment.columns}, columns, "column", experiment.name)
    entries = []
    for row, column in itertools.product(rows, contenders):
        cell = row.tuned_as or row.cell
        chosen = (tuned or {}).get(experiment.name, {}).get(cell, {}).get(column.name, {})
        scenario = scenario_of_entry(experiment, row, column, chosen)
        count = seeds or row.seeds or experiment.seeds
        runs = tuple(scenario.model_copy(update={"seed": seed}) for seed in range(count))
        entries.append(Entry(row, column, chosen, runs))
    return entries


def scenario_of_entry(experiment: Experiment, row: Row, column: Column, chosen: Mapping[str, Any]) -> Scenario:
    """A row's scenario as a column changes it, with the row's number of gradient steps per client."""
    here = f"{experiment.name}, {row.cell}"
    own = {**column.set, **row.columns.get(column.name, {}), **chosen}
    base = _load(here, row.scenario, row.set)
    scenario = _load(f"{here}, {column.name}", row.scenario, {**row.set, **own, **QUIET})
    if "learning.local_steps" not in own:
        scenario = _with(scenario, "learning", local_steps=_local_steps(base.learning, scenario.learning))
    if "stop.visits" not in own and experiment.equal_steps:
        visits = _visits(here, base, scenario)
        every = max(1, round(scenario.learning.evaluate_every * visits / (base.stop.visits or visits)))
        scenario = _with(scenario, "stop", visits=visits)
        scenario = _with(scenario, "learning", evaluate_every=every)
    return scenario


# --- equal gradient steps -------------------------------------------------------------------------------------


def gradients_per_visit(learning: Learning, plugins: Plugins | None = None) -> int:
    """Gradients that a client computes each time it takes part: the algorithm's class knows."""
    algorithm = choose(learning.algorithm, "learning.algorithm", plugins or {})
    return int(algorithm.ask("gradients_per_visit", learning.local_steps))


def gradients_per_client(scenario: Scenario) -> float:
    """Gradients that a client computes in a whole run, on average, if every exchange gets through.

    Where all in range take part it depends on the world: then for one client per visit.
    """
    visits = scenario.stop.visits or 0
    return visits * _takers(scenario) * gradients_per_visit(scenario.learning) / scenario.clients.count


def _takers(scenario: Scenario) -> int:
    active = scenario.learning.active
    return min(active, scenario.clients.count) if isinstance(active, int) else 1


def _local_steps(base: Learning, learning: Learning) -> int:
    """The local steps with which the gradients per visit come nearest to the row's."""
    wanted = gradients_per_visit(base)

    def miss(steps: int) -> int:
        return abs(gradients_per_visit(learning.model_copy(update={"local_steps": steps})) - wanted)

    return min(range(max(1, base.local_steps), 0, -1), key=miss)


def _visits(here: str, base: Scenario, scenario: Scenario) -> int:
    """The visits with which the gradients per client come nearest to the row's."""
    if base.stop.visits is None or (base.learning.active == "all") != (scenario.learning.active == "all"):
        raise UserError(
            f"{here}: gradient steps cannot be made equal: stop.visits must be set, and learning.active must be "
            'a number or "visited" in all columns, or "all" in all of them'
        )
    per_visit = _takers(scenario) * gradients_per_visit(scenario.learning) / scenario.clients.count
    return max(1, round(gradients_per_client(base) / per_visit))


# --- tuning ---------------------------------------------------------------------------------------------------


def grid(row: Row, column: Column) -> list[Changes]:
    """Every combination of the values to try."""
    values = {key: row.tune.get(key, tried) for key, tried in column.tune.items()}
    return [dict(zip(values, point, strict=True)) for point in itertools.product(*values.values())]


def tuning_points(experiment: Experiment, entry: Entry, seed: int) -> Iterator[tuple[Changes, Scenario]]:
    """What tuning runs: the grid, with one seed of its own, and a validation part to choose by at the end."""
    for choice in grid(entry.row, entry.column):
        changes = {**choice, "learning.validation_share": 0.2, "learning.evaluate_contacts": False}
        scenario = scenario_of_entry(experiment, entry.row, entry.column, changes)
        scenario = _with(scenario, "learning", evaluate_every=scenario.stop.visits or scenario.learning.evaluate_every)
        yield choice, scenario.model_copy(update={"seed": seed})


def tune(
    experiment: Experiment, entries: Sequence[Entry], seed: int, out: Path, engine: Engine | None = None
) -> tuple[list[Tried], list[Failure]]:
    """Run the grids of rows × columns, choose by validation accuracy, and enter the choices into OUT/tuned.toml.

    Where a run failed, or all diverged, nothing is chosen.
    """
    tunable = [entry for entry in entries if entry.column.tune and entry.row.tuned_as is None]
    grids = [(entry, list(tuning_points(experiment, entry, seed))) for entry in tunable]
    failures = run_batch([scenario for _, points in grids for _, scenario in points], out / "runs", engine)
    tried = []
    for entry, points in grids:
        folders = [run_folder(out / "runs", scenario) for _, scenario in points]
        if not all(is_done(folder) for folder in folders):
            continue
        scores = [validation_accuracy(folder) for folder in folders]
        ranks = [-1.0 if score is None else score for score in scores]
        best = ranks.index(max(ranks))
        if scores[best] is not None:
            write_tuned(out / "tuned.toml", experiment.name, entry.row.cell, entry.column.name, points[best][0])
        for i, (choice, _) in enumerate(points):
            tried.append(Tried(entry, choice, scores[i], i == best and scores[best] is not None))
    return tried, failures


def validation_accuracy(folder: Path) -> float | None:
    """The validation accuracy of personal models at the end of a run; None where there is none or it diverged."""
    if not is_done(folder):
        return None
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    accuracy: float | None = summary["personal_validation_acc_mean"]
    return None if summary["stopped_by"] == "diverged" else accuracy


def describe(choice: Changes) -> str:
    """A choice in short, such as `step_size 0.1, beta 1.0`."""
    return ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in choice.items())


def read_tuned(own: Path) -> Tuned:
    """What tuning chose: as shipped, and where the user tuned, the user's."""
    found: Tuned = {}
    for file in (_folder() / "tuned.toml", own):
        if file.is_file():
            for experiment, cells in read_toml(file).items():
                for cell, columns in cells.items():
                    found.setdefault(experiment, {}).setdefault(cell, {}).update(columns)
    return found


def write_tuned(own: Path, experiment: str, cell: str, column: str, choice: Changes) -> None:
    """Enter one choice into the user's file; the others stay."""
    import tomli_w

    tuned = read_toml(own) if own.is_file() else {}
    tuned.setdefault(experiment, {}).setdefault(cell, {})[column] = choice
    own.parent.mkdir(parents=True, exist_ok=True)
    write_text(own, tomli_w.dumps(tuned))


# --- helpers --------------------------------------------------------------------------------------------------


def _folder() -> Path:
    from fedmule import scenarios

    return Path(scenarios.__file__).parent / "experiments"


def _load(here: str, name: str, changes: Changes) -> Scenario:
    try:
        return load_scenario(name, changes)
    except UserError as error:
        raise UserError(f"{here}: {error}") from None


def _with(scenario: Scenario, part: str, **values: Any) -> Scenario:
    """The scenario with other values in one of its parts."""
    return scenario.model_copy(update={part: getattr(scenario, part).model_copy(update=values)})


def _named(known: Mapping[str, Any], names: Sequence[str] | None, what: str, experiment: str) -> list[Any]:
    """Those of the names given; all if none are."""
    for name in names or ():
        if name not in known:
            raise UserError(f"{experiment}: no {what} is named {name}; there are {', '.join(known)}")
    return [value for name, value in known.items() if not names or name in names]


def _check_names(experiment: Experiment, source: str) -> None:
    """Names are unique, and rows speak of columns that there are."""
    columns = [column.name for column in experiment.columns]
    cells = [row.cell for row in experiment.rows]
    for name in [*cells, *columns]:
        if cells.count(name) > 1 or columns.count(name) > 1:
            raise UserError(f"{source}: {name} is there twice")
    for row in experiment.rows:
        if row.tuned_as is not None and row.tuned_as not in cells:
            raise UserError(f"{source}: {row.cell} is tuned as {row.tuned_as}; there are {', '.join(cells)}")
        for name in [*row.columns, *row.published, *row.published_s]:
            if name not in columns:
                raise UserError(f"{source}: {row.cell} speaks of a column {name}; there are {', '.join(columns)}")
