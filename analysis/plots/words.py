"""Names of results, parameters and their values as figures show them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fedmule.simulator.runs.column_kinds import PERCENT, POINTS, Scale
from fedmule.simulator.runs.columns import QUANTITIES

UNITS = {"_mps": "m/s", "_mbps": "Mb/s", "_m": "m", "_s": "s", "_db": "dB", "_dbm": "dBm", "_khz": "kHz", "_mhz": "MHz"}
LONGEST = 32  # characters of a value's name


def axis_of(result: str) -> str:
    """Axis label of a result: `simulated time (h)` for sim_time_s; of a measure of your own, its name."""
    return QUANTITIES[result].axis if result in QUANTITIES else label_of(result)


def scale_of(result: str) -> Scale:
    """Unit in which figures show a result, and its size in the unit in which it is logged."""
    return QUANTITIES[result].shown if result in QUANTITIES else Scale("")


def is_difference(result: str) -> bool:
    """Whether a result is a difference of shares, in points, which may be below 0."""
    return scale_of(result) == POINTS


def is_share(result: str) -> bool:
    """Whether a result is a share in %, or a difference of shares."""
    return scale_of(result) in (PERCENT, POINTS)


def in_words(parameter: str) -> tuple[str, str]:
    """A scenario's key in words, and its unit: `vehicle speed` and `m/s` for vehicle.speed_mps."""
    unit = ""
    for ending in sorted(UNITS, key=len, reverse=True):
        if parameter.endswith(ending):
            parameter, unit = parameter.removesuffix(ending), UNITS[ending]
            break
    words = parameter.replace(".", " ").replace("_", " ")
    return words.replace("sim time", "simulated time"), unit


def with_words(text: str, parameters: Iterable[str]) -> str:
    """A text with the keys in it put into words."""
    for key in sorted(parameters, key=len, reverse=True):
        text = text.replace(key, in_words(key)[0]) if "." in key else text
    return text


def unbroken(sentence: str) -> str:
    """A sentence for a page, in which no line ends between ± and its number."""
    return sentence.replace("± ", "±\u00a0")


def heading_of(parameter: str) -> str:
    """Heading of a table's column: `vehicle speed, m/s` for vehicle.speed_mps."""
    return ", ".join(filter(None, in_words(parameter)))


def label_of(parameter: str) -> str:
    """Label of a figure's axis: `vehicle speed (m/s)` for vehicle.speed_mps."""
    words, unit = in_words(parameter)
    return plain(f"{words} ({unit})" if unit else words)


def with_value(parameter: str, value: Any) -> str:
    """A parameter with its value: `vehicle speed 8 m/s`."""
    words, unit = in_words(parameter)
    return f"{words} {short(value)} {unit}".rstrip()


def short(value: Any) -> str:
    """Short text for a parameter's value."""
    text = f"{value:g}" if is_number(value) else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def named(value: Any) -> str:
    """Short text for a parameter's value, for a figure."""
    return plain(short(value))


def plain(text: str) -> str:
    """Text that matplotlib shows literally, without reading dollar signs as maths."""
    return text.replace("\\", "/").replace("$", r"\$")


def is_number(value: Any) -> bool:
    """Whether a value is a number; booleans are not."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)
