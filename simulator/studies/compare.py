"""A comparison of algorithms as a study: the same world, data and start for each, and local training beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedmule.simulator.scenario.load import load_scenario
from fedmule.simulator.studies.experiment import Column, Experiment, Row, plan
from fedmule.simulator.studies.plan import Study, StudyPoint

# Algorithms that are another with keys set.
VARIANTS: dict[str, dict[str, Any]] = {
    "slack": {"learning.algorithm": "rwsadmm", "learning.variant": "slack"},
    "derived": {"learning.algorithm": "rwsadmm", "learning.variant": "derived"},
    "printed": {"learning.algorithm": "rwsadmm", "learning.variant": "printed"},
    "neighbourhood": {"learning.algorithm": "rwsadmm", "learning.token": "neighbourhood"},
    "fedavg_ft": {"learning.algorithm": "fedavg", "learning.fine_tune": True},
}


def comparison(
    name: str, scenario: str, algorithms: Sequence[str], changes: Mapping[str, Any], seeds: int, first_seed: int = 0
) -> tuple[Study, list[StudyPoint]]:
    """Every algorithm × seed, with the scenario's number of gradient steps per client; local training comes first."""
    names = list(dict.fromkeys(["local", *algorithms]))
    columns = tuple(Column(name=name, set=VARIANTS.get(name, {"learning.algorithm": name})) for name in names)
    row = Row(cell=scenario, scenario=scenario, set=dict(changes))
    equal = load_scenario(scenario, changes).stop.visits is not None
    experiment = Experiment(name="fedmule compare", title="", equal_steps=equal, rows=(row,), columns=columns)
    points = [
        StudyPoint(scenario, {"learning.algorithm": entry.column.name}, first_seed + i, point)
        for entry in plan(experiment, seeds=seeds)
        for i, point in enumerate(s.model_copy(update={"seed": first_seed + s.seed}) for s in entry.scenarios)
    ]
    study = Study(name=name, scenarios=(scenario,), vary={"learning.algorithm": tuple(names)})
    return study.model_copy(update={"seeds": seeds}), points
