"""Parameter studies: scenarios × varied keys × seeds, each point an ordinary run, and one table of all results."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, ValidationError

from fedmule.simulator.errors import ScenarioError, UserError
from fedmule.simulator.runs.folder import is_done, write_text
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.keys import Count, Part
from fedmule.simulator.scenario.load import load_scenario, read_toml
from fedmule.simulator.scenario.messages import problems_of
from fedmule.simulator.scenario.overrides import expand_range
from fedmule.simulator.studies.batch import Failure, run_folder

if TYPE_CHECKING:
    import pandas as pd

Changes = dict[str, Any]  # values by the dotted keys of a scenario
Values = Annotated[tuple[Any, ...], Field(strict=False, min_length=1)] | str  # a list, or a range as "a..b:step"
Seed = Annotated[int, Field(ge=0)]


class Study(Part):
    """A study file."""

    name: str = ""
    title: str = Field(default="", description="what the study asks")
    scenarios: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] = Field(
        description="names of scenarios that ship, or files"
    )
    set: Changes = Field(default={}, description="keys that differ from the scenarios everywhere")
    vary: dict[str, Values] = Field(default={}, description="values by key; every combination is a point")
    zip: Annotated[tuple[dict[str, Values], ...], Field(strict=False)] = Field(
        default=(), description="tables of keys whose values go together, first with first"
    )
    seeds: Count | Annotated[tuple[Seed, ...], Field(strict=False, min_length=1)] = Field(
        default=3, description="how many replications, 0 to N − 1, or a list of seeds"
    )
    common_random_numbers: bool = Field(
        default=True, description="the same seeds at every point: same data, start model and movement"
    )


@dataclass(frozen=True)
class StudyPoint:
    """One run of a study: the scenario as it is changed there."""

    source: str
    changes: Changes
    replication: int
    scenario: Scenario


def is_study(path: Path) -> bool:
    """Whether a file is a study rather than a scenario."""
    try:
        return path.is_file() and not {"scenarios", "vary", "zip"}.isdisjoint(read_toml(path))
    except UserError:
        return False  # whoever reads it as a scenario will say what is wrong


def load_study_file(path: Path) -> Study:
    """The study in a file; scenarios that lie beside it are found there."""
    try:
        study = Study.model_validate({"name": path.stem, **read_toml(path)})
    except ValidationError as error:
        raise ScenarioError(str(path), problems_of(error, Study)) from None
    beside = [path.parent / name for name in study.scenarios]
    names = [str(f) if f.is_file() else name for f, name in zip(beside, study.scenarios, strict=True)]
    return study.model_copy(update={"scenarios": tuple(names)})


def plan(study: Study) -> list[StudyPoint]:
    """Every point × seed of a study, validated; all that is wrong is said at once."""
    wrong: dict[str, list[str]] = {}  # where, by what is wrong there
    points = []
    for source, changes in itertools.product(study.scenarios, combinations(study)):
        for replication in _seeds(study):
            try:
                seed = replication if study.common_random_numbers else _own_seed(source, changes, replication)
                scenario = load_scenario(source, {**study.set, **changes}, seed)
                points.append(StudyPoint(source, changes, replication, scenario))
            except UserError as error:
                for line in str(error).splitlines():
                    wrong.setdefault(line.replace("--set: ", ""), []).append(describe(changes))
                break
    if wrong:
        raise UserError("\n".join(_line(problem, where) for problem, where in wrong.items()))
    return points


def combinations(study: Study) -> list[Changes]:
    """What is changed at each point: all combinations of what is varied, zipped keys together."""
    where = study.name or "study"
    axes: list[list[Changes]] = []
    for key, values in study.vary.items():
        axes.append([{key: value} for value in _listed(values, f"{where}: vary.{key}")])
    for i, table in enumerate(study.zip):
        columns = {key: _listed(values, f"{where}: zip[{i}].{key}") for key, values in table.items()}
        if len({len(column) for column in columns.values()}) > 1:
            lengths = ", ".join(f"{key} has {len(column)}" for key, column in columns.items())
            raise UserError(f"{where}: zip[{i}]: must have as many values for every key: {lengths}")
        axes.append([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])
    keys = [key for table in (study.vary, *study.zip) for key in table]
    for key in keys:
        if key == "seed" or keys.count(key) > 1 or key in study.set:
            reason = "is for seeds to say" if key == "seed" else "is there twice"
            raise UserError(f"{where}: {key}: {reason}")
    found = [{k: v for part in parts for k, v in part.items()} for parts in itertools.product(*axes)]
    texts = [json.dumps(changes, sort_keys=True, default=str) for changes in found]
    for changes, text in zip(found, texts, strict=True):
        if texts.count(text) > 1:
            raise UserError(f"{where}: {describe(changes)} is there twice")
    return found


def describe(changes: Changes) -> str:
    """A point in short, such as `vehicle.speed_mps=5, radio.range_m=100`."""
    return ", ".join(f"{key}={_text(value)}" for key, value in changes.items())


# --- results --------------------------------------------------------------------------------------------------


def index_of(points: Sequence[StudyPoint], root: Path, failures: Iterable[Failure] = ()) -> pd.DataFrame:
    """A row per run: its folder, scenario, seed and parameters, `status` (done, failed or missing), and its summary."""
    import pandas as pd

    errors = {run_folder(root, failure.scenario): failure.error for failure in failures}
    rows = []
    for point in points:
        folder = run_folder(root, point.scenario)
        done = is_done(folder)
        rows.append(
            {
                "run": f"{root.name}/{folder.name}",
                "scenario": point.source,
                "seed": point.scenario.seed,
                "replication": point.replication,
                **{key: _cell(value) for key, value in point.changes.items()},
                "status": "done" if done else "failed" if folder in errors else "missing",
                "error": None if done else errors.get(folder),
                **(_summary(folder) if done else {}),
            }
        )
    table = pd.DataFrame(rows)
    for key in {key for point in points for key in point.changes}:
        if table[key].map(type).nunique() > 1 and not all(_is_number(v) for v in table[key]):
            table[key] = table[key].map(str)
    return table


def write_study(out: Path, study: Study, index: pd.DataFrame) -> None:
    """OUT/study.toml and OUT/index.parquet."""
    import tomli_w

    out.mkdir(parents=True, exist_ok=True)
    write_text(out / "study.toml", tomli_w.dumps(_plain(study.model_dump())))
    partial = out / "index.parquet.partial"
    index.to_parquet(partial, index=False)
    partial.replace(out / "index.parquet")


def _summary(folder: Path) -> dict[str, Any]:
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return {key: value for key, value in summary.items() if key not in ("name", "seed")}


# --- helpers --------------------------------------------------------------------------------------------------


def _line(problem: str, points: Sequence[str]) -> str:
    if not points[0]:
        return problem
    return f"{problem} (where {points[0]}" + (f", and {len(points) - 1} more)" if len(points) > 1 else ")")


def _seeds(study: Study) -> Iterable[int]:
    return range(study.seeds) if isinstance(study.seeds, int) else study.seeds


def _own_seed(source: str, changes: Changes, replication: int) -> int:
    """A seed that follows from the point, so that points differ in everything that is random."""
    text = json.dumps([source, changes, replication], sort_keys=True, default=str)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def _listed(values: Any, where: str) -> Sequence[Any]:
    return expand_range(values, where) if isinstance(values, str) else values


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _cell(value: Any) -> Any:
    """A parameter's value as a table holds it: numbers, words and truth values; others as text."""
    return value if isinstance(value, bool | int | float | str) else _text(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
