"""Running from Python, such as in a notebook: each function runs simulations and returns their results, loaded."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedmule.analysis.loading import Run
    from fedmule.analysis.studies import Study
    from fedmule.simulator.studies.batch import Failure
    from fedmule.simulator.studies.plan import Plan
    from fedmule.simulator.studies.search import Found

Changes = Mapping[str, Any]  # values by dotted keys, such as {"vehicle.speed_mps": 8}


def run(
    scenario: str | Path | Mapping[str, Any] = "smoke",
    set: Changes | None = None,
    *,
    seed: int | None = None,
    out: str | Path | None = None,
    quiet: bool = False,
    allow_plugins: bool = False,
) -> Run:
    """Run a scenario (one that ships, a file, or its tables as a dict) with a progress bar, and return the run.

    `set` changes keys by their dotted names: {"vehicle.speed_mps": 8}. The run can be used wherever a folder can.

    Where a scenario names a class of your own you may pass the class itself: {"clients.mobility": MyModel}, or
    {"clients.mobility": {"kind": MyModel, "radius_m": 120.0}} with its arguments. By default a new folder is made in
    runs/. Raises simulator.errors.UserError, whose text says what is wrong, on bad input.
    """
    from fedmule.analysis.loading import load_run
    from fedmule.simulator.runs.run import run_scenario
    from fedmule.simulator.scenario.load import load_scenario, scenario_of
    from fedmule.simulator.scenario.plugins import load_plugins, plugin_folders

    own: dict[str, Any] = {}
    changed = {key: _by_name(value, key, own) for key, value in (set or {}).items()}
    if isinstance(scenario, Mapping):
        raw = _by_name({"name": "notebook", **scenario, **({} if seed is None else {"seed": seed})}, "", own)
        found, source = scenario_of(raw, changed, "scenario"), ""
    else:
        found, source = load_scenario(str(scenario), changed, seed), str(scenario)
    plugins = load_plugins(found, allow_plugins, plugin_folders(source), own)
    summary = run_scenario(found, None if out is None else os.fspath(out), plugins, quiet, announce=False)
    return load_run(summary["folder"])


def study(
    scenario: str | Path | Sequence[str],
    values: Mapping[str, Sequence[Any] | str],
    *,
    seeds: int = 3,
    set: Changes | None = None,
    out: str | Path | None = None,
    jobs: int | None = None,
    quiet: bool = False,
    allow_plugins: bool = False,
) -> Study:
    """Run every combination of values over seeds, skipping what is done, and return the study.

    Values are lists, or ranges such as "5..20:5". Every run has a process of its own: your own classes must be in a
    module beside the notebook, and plugins allowed. Runs that fail raise a warning and do not stop the others.
    """
    from fedmule.simulator.scenario.load import find_scenario
    from fedmule.simulator.studies.plan import StudyFile, plan_study

    sources = tuple([str(scenario)] if isinstance(scenario, str | Path) else scenario)
    varied = {key: value if isinstance(value, str) else tuple(value) for key, value in values.items()}
    name = find_scenario(sources[0]).stem
    plan = plan_study(StudyFile(name=name, scenarios=sources, vary=varied, set=dict(set or {}), seeds=seeds))
    return _run_plan(plan, Path(out or f"studies/{name}"), jobs, quiet, allow_plugins)


def compare(
    scenario: str | Path,
    algorithms: Sequence[str] = ("rwsadmm", "fedavg_ft"),
    *,
    seeds: int = 3,
    set: Changes | None = None,
    out: str | Path | None = None,
    jobs: int | None = None,
    quiet: bool = False,
    allow_plugins: bool = False,
) -> Study:
    """Run algorithms, and always local training, on the same world and data; return them as a study."""
    from fedmule.simulator.scenario.load import find_scenario
    from fedmule.simulator.studies.compare import plan_comparison

    folder = Path(out or f"studies/{find_scenario(str(scenario)).stem}-algorithms")
    plan = plan_comparison(folder.name, str(scenario), algorithms, set or {}, seeds, allow_plugins=allow_plugins)
    return _run_plan(plan, folder, jobs, quiet, allow_plugins)


def find(
    scenario: str | Path,
    by: str,
    *,
    gain: float | None = None,
    at_least: float | None = None,
    quantity: str | None = None,
    seeds: int = 5,
    tolerance: float | None = None,
    set: Changes | None = None,
    out: str | Path | None = None,
    jobs: int | None = None,
    quiet: bool = False,
    allow_plugins: bool = False,
) -> Found:
    """Find the smallest value of a key, such as `by="vehicle.speed_mps=1..20"`, that is good enough.

    Good enough is a `gain` over training alone in percentage points, or a `quantity` of the summary that is `at_least`
    so much, in its own unit. The result has `value`, `interval`, `table` and `folder`; as text it is the answer in
    words. If the quantity falls as the key grows, the largest value is found.
    """
    from fedmule.simulator.studies.question import ask, target_of
    from fedmule.simulator.studies.search import answer

    name, target = target_of(gain, at_least, quantity)
    question = ask(str(scenario), by, target, quantity=name, seeds=seeds, tolerance=tolerance, changes=dict(set or {}))
    folder = None if out is None else Path(out)
    found = answer(question, folder, jobs=jobs, allow_plugins=allow_plugins, quiet=quiet)
    _warn(found.failures, len(found.table) * seeds)
    return found


def _run_plan(plan: Plan, out: Path, jobs: int | None, quiet: bool, allow_plugins: bool) -> Study:
    from fedmule.analysis.studies import load_study
    from fedmule.simulator.studies.batch import run_plan

    _warn(run_plan(plan, out, jobs=jobs, quiet=quiet, allow_plugins=allow_plugins).failures, len(plan.points), 4)
    return load_study(out)


def _warn(failures: Sequence[Failure], total: int, stacklevel: int = 3) -> None:
    if failures:
        text = f"{len(failures)} of {total} runs failed; the first error: {failures[0].error.strip()}"
        warnings.warn(text, stacklevel=stacklevel)


def _by_name(value: Any, key: str, own: dict[str, Any]) -> Any:
    """A scenario's value with classes and functions replaced by their names; `own` receives them by dotted key."""
    if isinstance(value, Mapping):
        return {name: _by_name(part, f"{key}.{name}".lstrip("."), own) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_by_name(part, f"{key}[{i}]", own) for i, part in enumerate(value)]
    if callable(value):
        own[re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", key).removesuffix(".kind")] = value
        return f"{value.__module__}:{value.__name__}"
    return value
