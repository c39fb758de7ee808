"""A scenario that runs in a fraction of a second."""

from __future__ import annotations

from typing import Any

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
