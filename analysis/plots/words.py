"""Labels of parameters, their values and results in a picture."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedmule.simulator.runs.columns import QUANTITIES

# Results of a run, by their names in contacts or in the index of a study: what to divide by, and the label.
METRICS: dict[str, tuple[float, str]] = {name: (column.shown.size, column.axis) for name, column in QUANTITIES.items()}
UNITS = {"_mps": "m/s", "_mbps": "Mb/s", "_m": "m", "_s": "s", "_db": "dB", "_dbm": "dBm", "_khz": "kHz", "_mhz": "MHz"}
LONGEST = 32  # characters of a value


def label_of(parameter: str) -> str:
    """The label of a key, such as `vehicle speed (m/s)` for vehicle.speed_mps."""
    for ending, unit in sorted(UNITS.items(), key=lambda item: -len(item[0])):
        if parameter.endswith(ending):
            parameter, tail = parameter.removesuffix(ending), f" ({unit})"
            break
    else:
        tail = ""
    return plain(parameter.replace(".", " ").replace("_", " ") + tail)


def named(value: Any) -> str:
    """A parameter's value, shortened."""
    text = f"{value:g}" if is_number(value) else str(value)
    return plain(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")


def plain(text: str) -> str:
    """Text that matplotlib draws as it is, without mathematics between dollars."""
    return text.replace("\\", "/").replace("$", r"\$")


def is_number(value: Any) -> bool:
    """Whether a value is a number, and not a truth value."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)
