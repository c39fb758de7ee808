"""The verdict on a run: whether clients are better off than training alone."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedmule.simulator.runs.columns import OverAlone

FloatArray = NDArray[np.float64]

ROUNDING = 1e-9  # the same accuracy, computed in two ways, may differ by less than this


def over_alone(
    personal: FloatArray, alone: FloatArray, algorithm: str, server: str, chose_alone: int | None = None
) -> OverAlone:
    """Compare accuracies [n] of personal models with those of the same clients trained alone; nan: not trained.

    `chose_alone` is how many clients chose training alone over the token, if they had the choice.
    """
    gains = (personal - alone)[~np.isnan(alone)]
    width = half_width(gains)
    found: OverAlone = {
        "alone_clients": len(gains),
        "gain_over_alone": float(gains.mean()) if len(gains) else None,
        "gain_over_alone_half_width": width,
        "clients_better_off": int((gains > ROUNDING).sum()),
        "clients_worse_off": int((gains < -ROUNDING).sum()),
        "clients_alone": chose_alone,
        "verdict": None,
    }
    found["verdict"] = verdict(found, len(personal), algorithm, server)
    return found


def verdict(found: OverAlone, clients: int, algorithm: str, server: str) -> str | None:
    """Return a sentence such as "Carrying a model: +11.6 points (± 2.1) over training alone; …"; None without numbers.

    The interval is over the clients of this run: paired differences, Student's t, 95 %.
    """
    gain, width, count = found["gain_over_alone"], found["gain_over_alone_half_width"], found["alone_clients"]
    if gain is None:
        return None
    who, points = _subject(algorithm, server), f"{_signed(100 * gain)} points"
    sample = "" if count == clients else f", in a sample of {count:,} of {clients:,} clients"
    if width is None:
        of = "the only client" if clients == 1 else f"one of {clients:,} clients, which says little about the others"
        return f"{who}: {points} {_preposition(gain)} training alone for {of}."
    points += f" (± {100 * width:.1f})"
    counts = f"{found['clients_better_off']:,} of {count:,} clients better off, {found['clients_worse_off']:,} worse"
    counts += sample
    if found["clients_alone"]:
        counts += f"; {found['clients_alone']:,} chose to train alone"
    if abs(gain) <= width:
        return f"{who}: no clear difference from training alone: {points}; {counts}."
    return f"{who}: {points} {_preposition(gain)} training alone; {counts}."


def half_width(differences: FloatArray) -> float | None:
    """Return the half-width of the 95 % interval of a mean by Student's t; None for fewer than two values."""
    from scipy.special import stdtrit

    n = len(differences)
    if n < 2:
        return None
    return float(stdtrit(n - 1, 0.975) * differences.std(ddof=1) / math.sqrt(n))


def mean_known(values: FloatArray | None) -> float | None:
    """Return the mean of the values that are not nan; None if there are none."""
    if values is None or np.isnan(values).all():
        return None
    return float(np.nanmean(values))


def _subject(algorithm: str, server: str) -> str:
    if algorithm == "local":
        return "Training only at contacts"
    return "Carrying a model" if server == "vehicle" else "Sharing a model over a server"


def _preposition(gain: float) -> str:
    return "over" if gain >= 0 else "against"


def _signed(points: float) -> str:
    text = f"{abs(points):.1f}"
    return f"{'−' if points < 0 and text != '0.0' else '+'}{text}"
