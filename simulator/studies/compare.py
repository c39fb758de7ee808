"""A comparison of algorithms as a study: the same world, data and start for each, and local training beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedmule.simulator.scenario.keys import Chosen
from fedmule.simulator.scenario.load import load_scenario
from fedmule.simulator.studies.experiment import Column, Experiment, Row, plan
from fedmule.simulator.studies.plan import Study, StudyPoint

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
        return {"learning.algorithm": wanted}
    return {f"learning.algorithm.{key}": value for key, value in wanted.items() if key != "kind"}


def comparison(
    name: str, scenario: str, algorithms: Sequence[str], changes: Mapping[str, Any], seeds: int, first_seed: int = 0
) -> tuple[Study, list[StudyPoint]]:
    """Every algorithm × seed, with the scenario's number of gradient steps per client; local training comes first."""
    names = list(dict.fromkeys(["local", *algorithms]))
    base = load_scenario(scenario, changes)
    columns = tuple(Column(name=name, set=changes_to(name, base.learning.algorithm)) for name in names)
    row = Row(cell=scenario, scenario=scenario, set=dict(changes))
    equal = base.stop.visits is not None
    experiment = Experiment(name="fedmule compare", title="", equal_steps=equal, rows=(row,), columns=columns)
    points = [
        StudyPoint(scenario, {"learning.algorithm": entry.column.name}, first_seed + i, point)
        for entry in plan(experiment, seeds=seeds)
        for i, point in enumerate(s.model_copy(update={"seed": first_seed + s.seed}) for s in entry.scenarios)
    ]
    study = Study(name=name, scenarios=(scenario,), vary={"learning.algorithm": tuple(names)})
    return study.model_copy(update={"seeds": seeds}), points
