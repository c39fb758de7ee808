"""Comparisons of algorithms: the same world, data and start model for each, and local training as the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedmule.simulator.scenario.load import load_scenario
from fedmule.simulator.studies.experiment import Column, Experiment, Row, plan_experiment
from fedmule.simulator.studies.plan import Plan, Point, StudyFile

ALGORITHM = "learning.algorithm"

# Algorithms that are another with keys set.
VARIANTS: dict[str, dict[str, Any]] = {
    "slack": {"learning.algorithm": "rwsadmm", "learning.variant": "slack"},
    "derived": {"learning.algorithm": "rwsadmm", "learning.variant": "derived"},
    "printed": {"learning.algorithm": "rwsadmm", "learning.variant": "printed"},
    "neighbourhood": {"learning.algorithm": "rwsadmm", "learning.token": "neighbourhood"},
    "fedavg_ft": {"learning.algorithm": "fedavg", "learning.fine_tune": True},
}


def plan_comparison(
    name: str, scenario: str, algorithms: Sequence[str], changes: Mapping[str, Any], seeds: int, first_seed: int = 0
) -> Plan:
    """Every algorithm × seed, at the scenario's number of gradient steps per client; local training comes first."""
    names = tuple(dict.fromkeys(["local", *algorithms]))
    columns = tuple(Column(name=name, set=VARIANTS.get(name, {ALGORITHM: name})) for name in names)
    row = Row(cell=scenario, scenario=scenario, set=dict(changes))
    equal = load_scenario(scenario, changes).stop.visits is not None
    experiment = Experiment(name="fedmule compare", title="", equal_steps=equal, rows=(row,), columns=columns)
    points = (_point(point, first_seed) for point in plan_experiment(experiment, seeds=seeds).points)
    study = StudyFile(name=name, scenarios=(scenario,), set=dict(changes), vary={ALGORITHM: names}, seeds=seeds)
    return Plan(study, tuple(points))


def _point(point: Point, first_seed: int) -> Point:
    """A point of an experiment as one of a comparison, which names its column by the key that it varies."""
    seed = first_seed + point.replication
    scenario = point.scenario.model_copy(update={"seed": seed})
    return replace(point, scenario=scenario, parameters={ALGORITHM: point.parameters["column"]}, replication=seed)
