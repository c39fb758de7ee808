"""The folder of many runs: study.toml describes the study, index.parquet lists its runs, which are in runs/."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedmule.learning.files import replacing
from fedmule.simulator.runs.ending import ENDED, ending_of
from fedmule.simulator.runs.folder import is_done, write_text
from fedmule.simulator.runs.identity import Identity, differences, digest_of_scenario
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.studies.plan import Plan, StudyFile, as_text

if TYPE_CHECKING:
    import pandas as pd


def run_folder(out: Path, scenario: Scenario) -> Path:
    """The folder of a scenario's run in a study's folder, named after the resolved scenario's hash."""
    return out / "runs" / digest_of_scenario(scenario)[:16]


def is_current(folder: Path, identity: Identity) -> bool:
    """Whether a folder has a complete run with this identity."""
    return is_done(folder) and not differences(folder, identity)


def status_of(folder: Path, identity: Identity) -> tuple[str, str | None]:
    """How the run in a folder ended, stale (made by another program or with other data) or missing; and why.

    Runs that diverged, or have learnt nothing, are not done, but will not be run again either.
    """
    if not is_done(folder):
        return "missing", None
    if changes := differences(folder, identity):
        return "stale", "; ".join(changes)
    summary = _summary(folder)
    return ending_of(summary), summary.get("divergence")


def index_of(
    plan: Plan, out: Path, identities: Mapping[Path, Identity], failures: Mapping[Path, str] | None = None
) -> pd.DataFrame:
    """A row per point: its folder, scenario, seed, parameters and status, and the results of those that have ended.

    `identities` has what is expected in each run folder, `failures` the errors of those that failed.
    """
    import pandas as pd

    rows = []
    for point in plan.points:
        folder = run_folder(out, point.scenario)
        status, error = status_of(folder, identities[folder])
        if status not in ENDED and folder in (failures or {}):
            status, error = "failed", (failures or {})[folder]
        rows.append(
            {
                "run": f"runs/{folder.name}",
                "scenario": point.source,
                "seed": point.scenario.seed,
                "replication": point.replication,
                **{key: _cell(value) for key, value in point.parameters.items()},
                "status": status,
                "error": error,
                **(_results(folder) if status in ENDED else {}),
            }
        )
    table = pd.DataFrame(rows)
    for key in {key for point in plan.points for key in point.parameters}:
        known = table[key].dropna()
        if known.map(type).nunique() > 1 and not all(_is_number(value) for value in known):
            table[key] = table[key].map(str, na_action="ignore")
    return table


def write_study(out: Path, study: StudyFile, index: pd.DataFrame) -> None:
    """Write OUT/study.toml and OUT/index.parquet."""
    import tomli_w

    out.mkdir(parents=True, exist_ok=True)
    write_text(out / "study.toml", tomli_w.dumps(_plain(study.model_dump())))
    with replacing(out / "index.parquet") as file:
        index.to_parquet(file, index=False)


def _results(folder: Path) -> dict[str, Any]:
    return {key: value for key, value in _summary(folder).items() if key not in ("name", "seed")}


def _summary(folder: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return summary


def _cell(value: Any) -> bool | int | float | str:
    """A parameter's value as a table holds it; lists and tables as text."""
    return value if isinstance(value, bool | int | float | str) else as_text(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    """A value as TOML holds it: tuples become lists."""
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
