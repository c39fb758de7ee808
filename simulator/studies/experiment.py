"""Experiments: rows (scenarios) × columns (what is changed in them), at equal gradient steps per client."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from fedmule.simulator.errors import ScenarioError, UserError
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.keys import Count, Part
from fedmule.simulator.scenario.load import load_scenario, read_toml
from fedmule.simulator.scenario.messages import problems_of
from fedmule.simulator.scenario.parts import Plugins, choose
from fedmule.simulator.scenario.plugins import load_plugins, plugin_folders
from fedmule.simulator.studies.plan import Changes, Plan, Point, StudyFile

Grid = dict[str, Annotated[tuple[Any, ...], Field(strict=False, min_length=1)]]  # values to try, by dotted key
Tuned = dict[str, dict[str, dict[str, Changes]]]  # experiment -> cell -> column -> the values that tuning chose

LEAN_LOG: Changes = {"log.track": False, "log.graph_every": 0}


class Row(Part):
    """A task: a scenario, and what has been published about it."""

    cell: str = Field(description="the row's name in tables, such as mnist/mlr")
    part: str = Field(default="", description="the part of the experiment it belongs to, if it has parts")
    scenario: str = Field(description="a scenario file, or the name of a scenario that ships")
    set: Changes = Field(default={}, description="keys of the scenario to set")
    columns: dict[str, Changes] = Field(default={}, description="more keys to set, by column")
    tuned_as: str | None = Field(default=None, description="use the hyper-parameters that were tuned for this cell")
    tune: Grid = Field(default={}, description="values to try here instead of the column's, for keys it tunes")
    seeds: Count | None = Field(default=None, description="number of seeds, if other than the experiment's")
    published: dict[str, float] = Field(default={}, description="published accuracy in %, by column")
    published_s: dict[str, float] = Field(default={}, description="published run time in seconds, by column")


class Column(Part):
    """What is compared, such as an algorithm: keys to set in every row's scenario."""

    name: str
    part: str = Field(default="", description="the part of the experiment it belongs to, if it has parts")
    set: Changes = Field(default={}, description="keys of the scenario to set")
    tune: Grid = Field(default={}, description="values to try when tuning, by key")
    published_as: str | None = Field(default=None, description="the column whose published figures hold here too")


class Section(Part):
    """A part of an experiment, with a table of its own: its columns change its rows."""

    name: str = Field(description="what `part` of rows and columns says")
    title: str
    text: str = ""
    why: str = Field(default="", description="why our figures differ from the published ones")
    set: Changes = Field(default={}, description="keys to set in the scenarios of all its rows")
    pooled: bool = Field(
        default=False, description="also show accuracy over all test samples, and compare that with published figures"
    )


class Experiment(Part):
    """The keys of an experiment file.

    A row's scenario sets the number of gradient steps that a client takes in all, and every column takes as many:
    `learning.local_steps`, `stop.visits` and with them `learning.evaluate_every` follow unless a column sets them.
    """

    name: str = ""
    title: str
    text: str = ""
    why: str = Field(default="", description="why our figures differ from the published ones")
    seeds: Count = 3
    equal_steps: bool = Field(default=True, description="false: equal steps per visit, until the scenario's own end")
    reference: str | None = Field(default=None, description="the column that each other is compared with, seed by seed")
    parts: Annotated[tuple[Section, ...], Field(strict=False)] = ()
    rows: Annotated[tuple[Row, ...], Field(strict=False, min_length=1)]
    columns: Annotated[tuple[Column, ...], Field(strict=False, min_length=1)]

    @property
    def sections(self) -> tuple[Section, ...]:
        """Its parts; an experiment without parts is one."""
        return self.parts or (Section(name="", title="", why=self.why),)


def experiments_folder() -> Path:
    """Where the experiments that ship are."""
    from fedmule import scenarios

    return Path(scenarios.__file__).parent / "experiments"


def packaged_experiments() -> dict[str, Path]:
    """The experiments that ship, by name."""
    return {file.stem: file for file in sorted(experiments_folder().glob("*.toml")) if file.stem != "tuned"}


def load_experiment(name: str) -> Experiment:
    """Read an experiment file, or the experiment of that name that ships."""
    packaged = packaged_experiments()
    path = packaged.get(name, Path(name))
    if not path.is_file():
        raise UserError(f"{name}: no such file, and no experiment of that name ships ({', '.join(packaged)})")
    try:
        experiment = Experiment.model_validate({"name": path.stem, **read_toml(path)})
    except ValidationError as error:
        raise ScenarioError(str(path), problems_of(error, Experiment)) from None
    _check_names(experiment, str(path))
    common = {section.name: section.set for section in experiment.sections}
    rows = [row.model_copy(update={"set": {**common[row.part], **row.set}}) for row in experiment.rows]
    return experiment.model_copy(update={"rows": tuple(rows)})


def plan_experiment(
    experiment: Experiment,
    cells: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    seeds: int | None = None,
    tuned: Tuned | None = None,
    allow_plugins: bool = False,
) -> Plan:
    """Every row × column × seed of an experiment, or only the cells and columns named."""
    points = []
    for row, column in pairs(experiment, cells, columns):
        chosen = chosen_for(experiment, row, column, tuned)
        scenario = scenario_of_pair(experiment, row, column, chosen, allow_plugins)
        for seed in range(seeds or row.seeds or experiment.seeds):
            names = {"cell": row.cell, "column": column.name}
            points.append(Point(scenario.model_copy(update={"seed": seed}), row.scenario, names, seed))
    return Plan(study_of(experiment, points, seeds or experiment.seeds), tuple(points))


def study_of(
    experiment: Experiment, points: Sequence[Point], seeds: int | tuple[int, ...], **more: tuple[Any, ...]
) -> StudyFile:
    """An experiment as study.toml describes it: columns vary, and cells go together with their scenarios."""
    rows = {point.parameters["cell"]: point.source for point in points}
    return StudyFile(
        name=experiment.name,
        title=experiment.title,
        scenarios=tuple(dict.fromkeys(rows.values())),
        vary={"column": tuple(dict.fromkeys(point.parameters["column"] for point in points)), **more},
        zip=({"cell": tuple(rows), "scenario": tuple(rows.values())},),
        seeds=seeds,
    )


def pairs(
    experiment: Experiment, cells: Sequence[str] | None = None, columns: Sequence[str] | None = None
) -> list[tuple[Row, Column]]:
    """Every row × column of an experiment or of each of its parts, or only the cells and columns named."""
    known = [row.cell for row in experiment.rows]
    _check_known(cells, known, "cell", experiment.name)
    rows = [row for row in experiment.rows if not cells or row.cell in cells]
    both = [(row, column) for row, column in itertools.product(rows, experiment.columns) if row.part == column.part]
    _check_known(columns, dict.fromkeys(column.name for _, column in both), "column", experiment.name)
    return [(row, column) for row, column in both if not columns or column.name in columns]


def chosen_for(experiment: Experiment, row: Row, column: Column, tuned: Tuned | None) -> Changes:
    """The values that tuning chose for a row × column; none if it was not tuned."""
    return (tuned or {}).get(experiment.name, {}).get(row.tuned_as or row.cell, {}).get(column.name, {})


def scenario_of_pair(
    experiment: Experiment, row: Row, column: Column, chosen: Mapping[str, Any], allow_plugins: bool = False
) -> Scenario:
    """A row's scenario as a column changes it, with the row's number of gradient steps per client."""
    here = f"{experiment.name}, {row.cell}"
    own = {**column.set, **row.columns.get(column.name, {}), **chosen}
    base = _load(here, row.scenario, row.set)
    scenario = _load(f"{here}, {column.name}", row.scenario, {**row.set, **own, **LEAN_LOG})
    folders = plugin_folders(row.scenario)
    wanted, ours = (Gradients(s, load_plugins(s, allow_plugins, folders)) for s in (base, scenario))
    if "learning.local_steps" not in own:
        scenario = with_keys(scenario, "learning", local_steps=ours.local_steps_for(wanted))
        ours = replace(ours, scenario=scenario)
    if "stop.visits" not in own and experiment.equal_steps:
        visits = ours.visits_for(wanted, here)
        every = max(1, round(scenario.learning.evaluate_every * visits / (base.stop.visits or visits)))
        scenario = with_keys(scenario, "stop", visits=visits)
        scenario = with_keys(scenario, "learning", evaluate_every=every)
    return scenario


def with_keys(scenario: Scenario, table: str, **values: Any) -> Scenario:
    """The scenario with other values in one of its tables."""
    return scenario.model_copy(update={table: getattr(scenario, table).model_copy(update=values)})


# --- equal gradient steps -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gradients:
    """How many gradients clients compute in a scenario; the algorithm's class knows."""

    scenario: Scenario
    plugins: Plugins

    def per_visit(self, local_steps: int | None = None) -> int:
        """Gradients that a client computes each time it takes part."""
        learning = self.scenario.learning
        algorithm = choose(learning.algorithm, "learning.algorithm", self.plugins)
        return int(algorithm.ask("gradients_per_visit", local_steps or learning.local_steps))

    def per_client_and_visit(self) -> float:
        """Gradients of a client per visit of the vehicle, on average, if every exchange gets through.

        If everyone in range takes part, their number depends on the world: one client per visit is assumed.
        """
        active, clients = self.scenario.learning.active, self.scenario.clients.count
        taking_part = min(active, clients) if isinstance(active, int) else 1
        return taking_part * self.per_visit() / clients

    def per_client(self) -> float:
        """Gradients of a client in a complete run, on average."""
        return (self.scenario.stop.visits or 0) * self.per_client_and_visit()

    def local_steps_for(self, wanted: Gradients) -> int:
        """The number of local steps whose gradients per visit are closest to those wanted."""
        most, goal = max(1, wanted.scenario.learning.local_steps), wanted.per_visit()
        return min(range(most, 0, -1), key=lambda steps: abs(self.per_visit(steps) - goal))

    def visits_for(self, wanted: Gradients, here: str) -> int:
        """The number of visits whose gradients per client are closest to those wanted."""
        actives = [gradients.scenario.learning.active for gradients in (wanted, self)]
        if wanted.scenario.stop.visits is None or (actives[0] == "all") != (actives[1] == "all"):
            raise UserError(
                f"{here}: gradient steps cannot be made equal: stop.visits must be set, and learning.active must be "
                'a number or "visited" in all columns, or "all" in all of them'
            )
        return max(1, round(wanted.per_client() / self.per_client_and_visit()))


# --- names ----------------------------------------------------------------------------------------------------


def _load(here: str, name: str, changes: Changes) -> Scenario:
    try:
        return load_scenario(name, changes)
    except UserError as error:
        raise UserError(f"{here}: {error}") from None


def _check_known(names: Sequence[str] | None, known: Iterable[str], what: str, experiment: str) -> None:
    for name in names or ():
        if name not in known:
            raise UserError(f"{experiment}: no {what} is named {name}; there are {', '.join(known)}")


def _check_names(experiment: Experiment, source: str) -> None:
    """Raise UserError unless names are unique and every name that a row refers to exists."""
    cells = [row.cell for row in experiment.rows]
    parts = [section.name for section in experiment.sections]
    columns = {part: [column.name for column in experiment.columns if column.part == part] for part in parts}
    for names in (cells, parts, *columns.values()):
        for name in names:
            if names.count(name) > 1:
                raise UserError(f"{source}: {name} is given twice")
    for name, part in [(row.cell, row.part) for row in experiment.rows] + [
        (c.name, c.part) for c in experiment.columns
    ]:
        if part not in parts:
            known = ", ".join(filter(None, parts)) or "no parts"
            raise UserError(f"{source}: {name} {f'is of part {part}' if part else 'has no part'}; there are {known}")
    if experiment.reference is not None and not any(experiment.reference in names for names in columns.values()):
        known = ", ".join(dict.fromkeys(column.name for column in experiment.columns))
        raise UserError(f"{source}: reference is {experiment.reference}, which is no column; there are {known}")
    for row in experiment.rows:
        if row.tuned_as is not None and row.tuned_as not in cells:
            raise UserError(f"{source}: {row.cell} is tuned as {row.tuned_as}; there are {', '.join(cells)}")
        for name in [*row.columns, *row.published, *row.published_s]:
            if name not in columns[row.part]:
                known = ", ".join(columns[row.part])
                raise UserError(f"{source}: {row.cell} names a column {name}; there are {known}")
