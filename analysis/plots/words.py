"""Names of results, parameters and their values as figures show them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedmule.simulator.runs.column_kinds import Scale
from fedmule.simulator.runs.columns import QUANTITIES

UNITS = {"_mps": "m/s", "_mbps": "Mb/s", "_m": "m", "_s": "s", "_db": "dB", "_dbm": "dBm", "_khz": "kHz", "_mhz": "MHz"}
LONGEST = 32  # characters of a value's name


def axis_of(result: str) -> str:
    """Axis label of a result: `simulated time (h)` for sim_time_s; of a measure of your own, its name."""
    return QUANTITIES[result].axis if result in QUANTITIES else label_of(result)


def scale_of(result: str) -> Scale:
    """Unit in which figures show a result, and its size in the unit in which it is logged."""
    return QUANTITIES[result].shown if result in QUANTITIES else Scale("")


def label_of(parameter: str) -> str:
    """Label of a scenario's key with its unit: `vehicle speed (m/s)` for vehicle.speed_mps."""
    for ending, unit in sorted(UNITS.items(), key=lambda item: -len(item[0])):
        if parameter.endswith(ending):
            parameter, tail = parameter.removesuffix(ending), f" ({unit})"
            break
    else:
        tail = ""
    return plain(parameter.replace(".", " ").replace("_", " ") + tail)


def named(value: Any) -> str:
    """Short text for a parameter's value."""
    text = f"{value:g}" if is_number(value) else str(value)
    return plain(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")


def plain(text: str) -> str:
    """Text that matplotlib shows literally, without reading dollar signs as maths."""
    return text.replace("\\", "/").replace("$", r"\$")


def is_number(value: Any) -> bool:
    """Whether a value is a number; booleans are not."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)
