"""Fedmule: federated learning carried by a vehicle where there is no network.

    from fedmule import load_run, run
    result = load_run(run("warzone", {"vehicle.speed_mps": 8}))
    result.contacts.plot("sim_time_s", "personal_test_acc_mean")

`run`, `study` and `compare` run simulations and return folders; `load_run` and `load_study` open them. `find` searches
for the smallest value of a key that is good enough. `Movement`, `Radio`, `Policy` and `Algorithm` are base classes for
your own parts, `Samples` is what a data set of your own returns, and `Scenario` is a validated scenario file. Names are
imported on first use: `import fedmule` itself costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedmule.analysis.loading import load_run as load_run
    from fedmule.analysis.studies import load_study as load_study
    from fedmule.learning.algorithms.base import Algorithm as Algorithm
    from fedmule.learning.data.samples import Samples as Samples
    from fedmule.mobility.models.movement import Movement as Movement
    from fedmule.radio.link import Radio as Radio
    from fedmule.radio.walks.policy import Policy as Policy
    from fedmule.simulator.api import compare as compare
    from fedmule.simulator.api import find as find
    from fedmule.simulator.api import run as run
    from fedmule.simulator.api import study as study
    from fedmule.simulator.scenario import Scenario as Scenario

_HOMES = {
    "run": "simulator.api",
    "study": "simulator.api",
    "compare": "simulator.api",
    "find": "simulator.api",
    "load_run": "analysis.loading",
    "load_study": "analysis.studies",
    "Scenario": "simulator.scenario",
    "Movement": "mobility.models.movement",
    "Radio": "radio.link",
    "Algorithm": "learning.algorithms.base",
    "Policy": "radio.walks.policy",
    "Samples": "learning.data.samples",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
