"""What all tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import pytest

from simulator.scenario import Scenario

# Property tests try the same examples every time: a failure can be repeated, and a change is what caused it.
hypothesis.settings.register_profile("repeat", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeat")

SMALL: dict[str, Any] = {
    "name": "small",
    "terrain": {
        "size_m": [300, 200],
        "obstacles": [{"polygon": [[120, 60], [180, 60], [180, 140], [120, 140]], "radio_loss_db": 15}],
    },
    "clients": {"count": 8, "mobility": {"kind": "squads", "squads": 2}},
    "learning": {"dataset": {"samples": [20, 60]}, "evaluate_every": 5},
    "log": {"graph_every": 5},
    "stop": {"visits": 20},
}


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    both = dict(base)
    for key, value in changes.items():
        old = both.get(key)
        mergeable = isinstance(old, dict) and isinstance(value, dict) and "kind" not in value
        both[key] = merged(old, value) if mergeable else value
    return both


@pytest.fixture
def small() -> Callable[..., Scenario]:
    """small(**changes): a scenario that runs in a fraction of a second."""

    def make(**changes: Any) -> Scenario:
        replaced = {name: changes.pop(name) for name in ("stop",) if name in changes}
        return Scenario.model_validate({**merged(SMALL, changes), **replaced})

    return make
