"""Limits of a scenario's numbers: what no world has, or no computer holds, is refused before anything is built."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any

from fedmule.simulator.errors import Problem, UserError

VARIABLE = "FEDMULE_LIMITS"  # such as "clients.count=2e7,hidden=2e6", or "off"

# The most of what is counted, by the end of its dotted key.
MOST: dict[str, float] = {
    "clients.count": 1e7,
    "groups.count": 1e7,
    "vehicle.count": 1e4,
    "fleet.count": 1e4,
    "batch_size": 1e6,
    "local_steps": 1e6,
    "max_steps": 1e7,
    "hidden": 1e6,
    "features": 1e6,
    "classes": 1e5,
    "clusters": 1e4,
    "stop.visits": 1e9,
    "active": 1e7,
}
MOST_RUNS = 100_000  # of a study
# The least (where it is not 0) and the most of measured values, by the unit at the end of their key.
ANY_LEAST = ("checkpoint_s",)  # as often as can be
UNITS: dict[str, tuple[float, float]] = {
    "_m": (1e-6, 1e8),
    "_s": (1e-6, 1e11),
    "period_s": (1e-3, 1e11),  # what happens more often takes for ever to simulate
    "_mps": (1e-6, 1e6),
    "_mbps": (1e-9, 1e7),
    "_db": (0, 1e4),
    "_dbm": (0, 1e4),
    "_khz": (1e-3, 1e12),
    "_mhz": (1e-6, 1e9),
    "_bytes": (0, 1e15),
    "_flops_per_s": (1e-3, 1e21),
    "_flops_per_sample": (0, 1e21),
}


def beyond_limits(at: str, values: dict[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each number in a table that is beyond its limit."""
    raised = _raised()
    if raised is None:
        return
    for name, value in values.items():
        key = f"{at}.{name}" if at else name
        least, most = _limits(key, raised)
        for number in _numbers(value):
            if abs(number) > most or 0 < abs(number) < least:
                allowed = f"at most {most:,.0f}" if not least else f"between {least:g} and {most:g}"
                hint = f"{VARIABLE}={name}={_short(number)} raises the limit" if abs(number) > most else "or 0"
                yield Problem(key, f"must be {allowed} ({hint})", value)
                break


def _limits(key: str, raised: dict[str, float]) -> tuple[float, float]:
    """The least and the most that a key may be."""
    plain = ".".join(part.partition("[")[0] for part in key.split("."))
    least, most = 0.0, math.inf
    unit = max((unit for unit in UNITS if plain.endswith(unit)), key=len, default=None)
    if unit is not None:
        least, most = UNITS[unit]
        least = 0.0 if plain.endswith(ANY_LEAST) else least
    most = next((limit for name, limit in MOST.items() if f".{plain}".endswith(f".{name}")), most)
    return least, next((limit for name, limit in raised.items() if f".{plain}".endswith(f".{name}")), most)


def _numbers(value: Any) -> Iterator[float]:
    """The finite numbers in a value; whether a key may be infinite its type says."""
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _numbers(inner)
    elif isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        yield value


def _short(number: float) -> str:
    """A number for a message, which may be an integer that no float can hold."""
    return f"{abs(number):g}" if abs(number) < 1e300 else "…"


def require_runs(count: int, where: str) -> None:
    """Raise UserError if a study plans more runs than anybody can wait for."""
    raised = _raised()
    most = math.inf if raised is None else raised.get("runs", MOST_RUNS)
    if count > most:
        raise UserError(
            f"{where}: plans {count:,} runs, more than {most:,.0f} ({VARIABLE}=runs={_short(count)} raises the limit)"
        )


def _raised() -> dict[str, float] | None:
    """The limits that the user has raised; None if there are to be none."""
    text = os.environ.get(VARIABLE, "").strip()
    if text == "off":
        return None
    found = {}
    for part in filter(None, text.split(",")):
        name, _, most = part.partition("=")
        try:
            found[name.strip()] = float(most)
        except ValueError:
            raise UserError(
                f'{VARIABLE}: must be "off" or such as clients.count=2e7,hidden=2e6, not {part!r}'
            ) from None
    return found
