"""Parts built as scenarios build them: defaults come from the keys classes, other values from the test."""

from __future__ import annotations

from typing import Any

from fedmule.learning.algorithms.base import Settings, Task
from fedmule.learning.algorithms.local import Local
from fedmule.simulator.scenario.learning import FileDataset, Learning, SyntheticDataset
from fedmule.simulator.scenario.parts import choose

COMMON = ("step_size", "batch_size", "local_steps", "open_at")

# Names of the algorithms in tests, and the tables that name them in scenarios.
TABLES: dict[str, dict[str, Any]] = {
    "slack": {"kind": "rwsadmm"},
    "derived": {"kind": "rwsadmm", "variant": "derived"},
    "printed": {"kind": "rwsadmm", "variant": "printed"},
    "neighbourhood": {"kind": "rwsadmm", "token": "neighbourhood"},
    **{kind: {"kind": kind} for kind in ("fedavg", "walkman", "ditto", "apfl", "pfedme", "per_fedavg")},
    **{kind: {"kind": kind} for kind in ("ifca", "squad_oracle")},
}


def common_settings(**keys: Any) -> Settings:
    """Return the settings that all algorithms share, with the defaults of scenarios."""
    learning = Learning(**keys)
    return Settings(*(getattr(learning, name) for name in COMMON))


def make(kind: str, data: Any, model: Any, start: Any, draw: Any, reference: Any = None, **keys: Any) -> Any:
    """Build an algorithm; keys that only other algorithms have are ignored."""
    task = Task(data, model, common_settings(**{k: v for k, v in keys.items() if k in COMMON}), start, draw)
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
