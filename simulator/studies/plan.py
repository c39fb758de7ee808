"""Plans: the points that a study runs. A study file lists scenarios, the values to vary and seeds."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from fedmule.simulator.errors import ScenarioError, UserError
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.keys import Count, Part
from fedmule.simulator.scenario.limits import require_runs
from fedmule.simulator.scenario.load import load_scenario, read_toml
from fedmule.simulator.scenario.messages import problems_of
from fedmule.simulator.scenario.overrides import expand_range

Changes = dict[str, Any]  # values by the dotted keys of a scenario
Values = Annotated[tuple[Any, ...], Field(strict=False, min_length=1)] | str  # a list, or a range such as "5..20:5"
Seed = Annotated[int, Field(ge=0)]


class StudyFile(Part):
    """The keys of a study file; also how study.toml in a study's folder describes it."""

    name: str = ""
    title: str = Field(default="", description="the question the study answers")
    scenarios: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] = Field(
        description="scenario files, or names of scenarios that ship"
    )
    set: Changes = Field(default={}, description="keys to set in every run")
    vary: dict[str, Values] = Field(default={}, description="values by key; every combination is run")
    zip: Annotated[tuple[dict[str, Values], ...], Field(strict=False)] = Field(
        default=(), description="tables of keys whose values go together: first with first, second with second"
    )
    seeds: Count | Annotated[tuple[Seed, ...], Field(strict=False, min_length=1)] = Field(
        default=3, description="number of seeds, 0 to N − 1, or a list of seeds"
    )
    common_random_numbers: bool = Field(
        default=True, description="use the same seeds for every combination: same data, start model and movement"
    )


@dataclass(frozen=True)
class Point:
    """A run to be made: one combination of values with one seed."""

    scenario: Scenario  # resolved, with its seed
    source: str  # the file or name of the scenario that it changes
    parameters: Changes  # the combination, by column of the index
    replication: int  # the seed asked for; the scenario's differs where every combination has seeds of its own
    plugin_folders: tuple[Path, ...] | None = None  # where to find the user's classes; None if they are not allowed


@dataclass(frozen=True)
class Plan:
    """The points of a study, and its description for study.toml."""

    study: StudyFile
    points: tuple[Point, ...]


def is_study(path: Path) -> bool:
    """Whether a file is a study rather than a scenario."""
    try:
        return path.is_file() and not {"scenarios", "vary", "zip"}.isdisjoint(read_toml(path))
    except UserError:
        return False  # reading it as a scenario will report what is wrong


def packaged_studies() -> dict[str, Path]:
    """Return the studies that ship, by name: maps of the gain over training alone, and comparisons of walks."""
    from fedmule import scenarios

    folder = Path(scenarios.__file__).parent
    files = [file for kind in ("gain", "walks") for file in sorted((folder / kind).glob("*.toml"))]
    return {f"{file.parent.name}/{file.stem}": file for file in files}


def find_study(name: str) -> Path | None:
    """Return the study file of a name: a path, or the name of a study that ships; None if it is none."""
    path = Path(name)
    return path if is_study(path) else packaged_studies().get(name)


def load_study_file(path: Path) -> StudyFile:
    """Read a study file; the scenarios it names are looked for beside it first."""
    try:
        study = StudyFile.model_validate({"name": path.stem, **read_toml(path)})
    except ValidationError as error:
        raise ScenarioError(str(path), problems_of(error, StudyFile)) from None
    beside = [path.parent / name for name in study.scenarios]
    names = [str(f) if f.is_file() else name for f, name in zip(beside, study.scenarios, strict=True)]
    return study.model_copy(update={"scenarios": tuple(names)})


def plan_study(study: StudyFile) -> Plan:
    """Every scenario × combination × seed of a study. Raises UserError with everything that is wrong at once."""
    seeds = study.seeds if isinstance(study.seeds, int) else len(study.seeds)
    require_runs(len(study.scenarios) * seeds, study.name or "study")
    require_runs(len(study.scenarios) * len(combinations(study)) * seeds, study.name or "study")
    wrong: dict[str, list[str]] = {}  # combinations by what is wrong with them
    points = []
    for source, changes in itertools.product(study.scenarios, combinations(study)):
        for replication in _seeds(study):
            try:
                seed = replication if study.common_random_numbers else _own_seed(source, changes, replication)
                scenario = load_scenario(source, {**study.set, **changes}, seed)
                points.append(Point(scenario, source, changes, replication))
            except UserError as error:
                for line in str(error).splitlines():
                    wrong.setdefault(line.replace("--set: ", ""), []).append(describe(changes))
                break
    if wrong:
        raise UserError("\n".join(_line(problem, where) for problem, where in wrong.items()))
    return Plan(study, tuple(points))


def combinations(study: StudyFile) -> list[Changes]:
    """Every combination of the values to vary; zipped keys change together."""
    where = study.name or "study"
    axes: list[list[Changes]] = []
    for key, values in study.vary.items():
        axes.append([{key: value} for value in _listed(values, f"{where}: vary.{key}")])
    for i, table in enumerate(study.zip):
        columns = {key: _listed(values, f"{where}: zip[{i}].{key}") for key, values in table.items()}
        if len({len(column) for column in columns.values()}) > 1:
            lengths = ", ".join(f"{key} has {len(column)}" for key, column in columns.items())
            raise UserError(f"{where}: zip[{i}]: every key must have the same number of values: {lengths}")
        axes.append([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])
    keys = [key for table in (study.vary, *study.zip) for key in table]
    for key in keys:
        if key == "seed":
            raise UserError(f"{where}: seed: cannot be varied like other keys; use seeds (--seeds)")
        if keys.count(key) > 1 or key in study.set:
            raise UserError(f"{where}: {key}: is given twice")
    require_runs(math.prod(len(axis) for axis in axes), where)
    found = [{k: v for part in parts for k, v in part.items()} for parts in itertools.product(*axes)]
    seen: set[str] = set()
    for changes in found:
        text = json.dumps(changes, sort_keys=True, default=str)
        if text in seen:
            raise UserError(f"{where}: {describe(changes)} is given twice")
        seen.add(text)
    return found


def describe(changes: Changes) -> str:
    """A combination in short, such as `vehicle.speed_mps=5, radio.range_m=100`."""
    return ", ".join(f"{key}={as_text(value)}" for key, value in changes.items())


def as_text(value: Any) -> str:
    """A value as a table or a message shows it."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _line(problem: str, where: Sequence[str]) -> str:
    if not where[0]:
        return problem
    return f"{problem} (where {where[0]}" + (f", and {len(where) - 1} more)" if len(where) > 1 else ")")


def _seeds(study: StudyFile) -> Iterable[int]:
    return range(study.seeds) if isinstance(study.seeds, int) else study.seeds


def _own_seed(source: str, changes: Changes, replication: int) -> int:
    """A seed that follows from the combination, so that combinations differ in everything random."""
    text = json.dumps([source, changes, replication], sort_keys=True, default=str)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def _listed(values: tuple[Any, ...] | str, where: str) -> Sequence[Any]:
    return expand_range(values, where) if isinstance(values, str) else values
