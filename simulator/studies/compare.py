"""Comparisons of algorithms: the same world, data and start model for each, and local training as the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedmule.simulator.scenario.keys import Chosen
from fedmule.simulator.scenario.load import load_scenario
from fedmule.simulator.studies.experiment import Column, Experiment, Row, plan_experiment
from fedmule.simulator.studies.plan import Plan, Point, StudyFile

ALGORITHM = "learning.algorithm"

# Names for algorithms with keys set.
VARIANTS: dict[str, dict[str, Any]] = {
    "slack": {"kind": "rwsadmm", "variant": "slack"},
    "derived": {"kind": "rwsadmm", "variant": "derived"},
    "printed": {"kind": "rwsadmm", "variant": "printed"},
    "neighbourhood": {"kind": "rwsadmm", "token": "neighbourhood"},
    "fedavg_ft": {"kind": "fedavg", "fine_tune": True},
}


def changes_to(name: str, algorithm: Chosen) -> dict[str, Any]:
    """What makes a scenario's algorithm the one of this name; its other keys stay where the kind does."""
    wanted = VARIANTS.get(name, {"kind": name})
    if wanted["kind"] != algorithm.kind:
        return {ALGORITHM: wanted}
    return {f"{ALGORITHM}.{key}": value for key, value in wanted.items() if key != "kind"}


def plan_comparison(
    name: str,
    scenario: str,
    algorithms: Sequence[str],
    changes: Mapping[str, Any],
    seeds: int,
    first_seed: int = 0,
    allow_plugins: bool = False,
) -> Plan:
    """Every algorithm × seed, at the scenario's number of gradient steps per client; local training comes first."""
    names = tuple(dict.fromkeys(["local", *algorithms]))
    base = load_scenario(scenario, changes)
    columns = tuple(Column(name=name, set=changes_to(name, base.learning.algorithm)) for name in names)
    row = Row(cell=scenario, scenario=scenario, set=dict(changes))
    equal = base.stop.visits is not None
    experiment = Experiment(name="fedmule compare", title="", equal_steps=equal, rows=(row,), columns=columns)
    planned = plan_experiment(experiment, seeds=seeds, allow_plugins=allow_plugins)
    points = (_point(point, first_seed) for point in planned.points)
    study = StudyFile(name=name, scenarios=(scenario,), set=dict(changes), vary={ALGORITHM: names}, seeds=seeds)
    return Plan(study, tuple(points))


def _point(point: Point, first_seed: int) -> Point:
    """A point of an experiment as one of a comparison, which names its column by the key that it varies."""
    seed = first_seed + point.replication
    scenario = point.scenario.model_copy(update={"seed": seed})
    return replace(point, scenario=scenario, parameters={ALGORITHM: point.parameters["column"]}, replication=seed)
