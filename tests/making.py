"""Parts built as scenarios build them: defaults come from the keys classes, other values from the test."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from fedmule.learning.algorithms.base import Payload, Settings, Task
from fedmule.learning.algorithms.local import Local
from fedmule.simulator.population import reporting_of
from fedmule.simulator.scenario import mobility, radio
from fedmule.simulator.scenario.clients import Clients
from fedmule.simulator.scenario.keys import Part
from fedmule.simulator.scenario.learning import FileDataset, Learning, SyntheticDataset
from fedmule.simulator.scenario.parts import Choice, _load, choose, parameters_of

COMMON = ("step_size", "batch_size", "local_steps", "open_at")

# Names of the algorithms in tests, and the tables that name them in scenarios.
TABLES: dict[str, dict[str, Any]] = {
    "slack": {"kind": "rwsadmm", "variant": "slack"},
    "relay": {
        "kind": "rwsadmm",
        "variant": "relay",
        "centre": 0.0,
        "trust": math.inf,
        "token_mean": 0.0,
        "try_at": 0.0,
    },
    "rwsadmm": {"kind": "rwsadmm"},
    "derived": {"kind": "rwsadmm", "variant": "derived"},
    "printed": {"kind": "rwsadmm", "variant": "printed"},
    "neighbourhood": {"kind": "rwsadmm", "token": "neighbourhood", "try_at": 0.0},
    **{kind: {"kind": kind} for kind in ("fedavg", "walkman", "ditto", "apfl", "pfedme", "per_fedavg")},
    **{kind: {"kind": kind} for kind in ("ifca", "squad_oracle", "pooled")},
    **{kind: {"kind": kind} for kind in ("fedper", "fedrep", "fedbabu", "fedrod", "fedala", "feddbe")},
    **{f"fedex_{mode}": {"kind": "fedex", "mode": mode} for mode in ("sync", "async")},
}
HIDDEN = ("fedper", "fedrep", "fedbabu", "feddbe")  # they need a model with a hidden layer
SHARED_BODY = ("fedper", "fedrep", "fedbabu")  # they send only what is below the last layer


def common_settings(**keys: Any) -> Settings:
    """Return the settings that all algorithms share, with the defaults of scenarios."""
    between = keys.pop("between_contacts", False)
    learning = Learning(**keys)
    return Settings(*(getattr(learning, name) for name in COMMON), between)


def make(kind: str, data: Any, model: Any, start: Any, draw: Any, reference: Any = None, **keys: Any) -> Any:
    """Build an algorithm; keys that only other algorithms have are ignored."""
    common = {name: value for name, value in keys.items() if name in (*COMMON, "between_contacts")}
    task = Task(data, model, common_settings(**common), start, draw, keys.get("payload") or Payload())
    if kind == "local":
        return Local(task, reference or make("slack", data, model, start, draw, **keys))
    fields = type(Learning(algorithm=TABLES[kind]).algorithm).model_fields
    own = {name: value for name, value in keys.items() if name in fields}
    part = Learning(algorithm={**TABLES[kind], **own}).algorithm
    return choose(part, "learning.algorithm", {}).make(task=task)


def synthetic(clients: int, generator: Any, site: Any = None, **keys: Any) -> Any:
    """Draw synthetic samples."""
    part = SyntheticDataset(**keys)
    return choose(part, "learning.dataset", {}).make(clients=clients, generator=generator, site=site)


def from_file(clients: int, generator: Any, path: str, **keys: Any) -> Any:
    """Read samples from a file."""
    return choose(FileDataset(path=path, **keys), "learning.dataset", {}).make(clients=clients, generator=generator)


def reporting(period_s: float = 10.0, error_m: float = 0.0, **keys: Any) -> Any:
    """How clients report their positions; other keys are those of [clients], without `report_`."""
    given = {f"report_{name}": value for name, value in keys.items()}
    return reporting_of(Clients(report_period_s=period_s, report_error_m=error_m, **given))


def with_defaults(table: type[Part]) -> Callable[..., Any]:
    """The class that a table makes, with the defaults of its keys for arguments that are not given."""
    made_by = _load(table.makes)

    def build(*given: Any, **named: Any) -> Any:
        arguments = inspect.signature(made_by).bind_partial(*given, **named).arguments
        needed = {name: arguments[name] for name, field in table.model_fields.items() if field.is_required()}
        usual = choose(table(**needed), "key", {}).keys
        missing = {k: v for k, v in usual.items() if k not in arguments and k in parameters_of(made_by)[0]}
        return made_by(**{k: v.make() if isinstance(v, Choice) else v for k, v in missing.items()}, **arguments)

    return build


Disc, WifiDirect = with_defaults(radio.DiscRadio), with_defaults(radio.WifiDirectRadio)
Zigbee, Ble = with_defaults(radio.ZigbeeRadio), with_defaults(radio.BleRadio)
Lora, Acoustic = with_defaults(radio.LoraRadio), with_defaults(radio.AcousticRadio)
LogDistance, Nakagami = with_defaults(radio.LogDistancePropagation), with_defaults(radio.NakagamiPropagation)
TwoRay, ThreeLogDistance = with_defaults(radio.TwoRayPropagation), with_defaults(radio.ThreeLogDistancePropagation)
Static, Waypoint = with_defaults(mobility.StaticMobility), with_defaults(mobility.WaypointMobility)
RandomWalk, Squads = with_defaults(mobility.RandomWalkMobility), with_defaults(mobility.SquadsMobility)
Herd, Drift = with_defaults(mobility.HerdMobility), with_defaults(mobility.DriftMobility)
Recorded = with_defaults(mobility.TraceMobility)
