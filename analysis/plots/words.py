"""How parameters, their values and results are called in a picture."""

from __future__ import annotations

from typing import Any

import numpy as np

# Results of a run as the index of a study has them: what to divide by, and how to say it.
METRICS: dict[str, tuple[float, str]] = {
    "personal_test_acc_mean": (0.01, "personal test accuracy (%)"),
    "personal_test_acc_weighted": (0.01, "personal test accuracy, by samples (%)"),
    "personal_validation_acc_mean": (0.01, "personal validation accuracy (%)"),
    "token_test_acc": (0.01, "token test accuracy (%)"),
    "start_personal_test_acc_mean": (0.01, "personal test accuracy at the start (%)"),
    "sim_time_s": (3600.0, "simulated time (h)"),
    "host_time_s": (1.0, "host time (s)"),
    "travel_s": (3600.0, "driving (h)"),
    "airtime_s": (3600.0, "channel busy (h)"),
    "bytes": (1e6, "bytes on the air (MB)"),
    "bytes_down": (1e6, "bytes sent by the vehicle (MB)"),
    "bytes_up": (1e6, "bytes sent by clients (MB)"),
    "gradient_steps": (1.0, "gradient steps of all clients"),
    "visits": (1.0, "visits"),
    "clients_visited": (1.0, "clients visited"),
    "clients_reached": (1.0, "clients reached"),
    "missed": (1.0, "clients chased in vain"),
}
UNITS = {"_mps": "m/s", "_mbps": "Mb/s", "_m": "m", "_s": "s", "_db": "dB", "_dbm": "dBm", "_khz": "kHz", "_mhz": "MHz"}
LONGEST = 32  # characters of a value


def label_of(parameter: str) -> str:
    """A key with its unit, such as `vehicle speed (m/s)` for vehicle.speed_mps."""
    for ending, unit in sorted(UNITS.items(), key=lambda item: -len(item[0])):
        if parameter.endswith(ending):
            parameter, tail = parameter.removesuffix(ending), f" ({unit})"
            break
    else:
        tail = ""
    return plain(parameter.replace(".", " ").replace("_", " ") + tail)


def named(value: Any) -> str:
    """A parameter's value in short."""
    text = f"{value:g}" if is_number(value) else str(value)
    return plain(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")


def plain(text: str) -> str:
    """Text that matplotlib takes as it is: no mathematics between dollars."""
    return text.replace("\\", "/").replace("$", r"\$")


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)
