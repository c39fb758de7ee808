"""Measures of runs against simulated time, host time, visits, bytes or gradients: how soon, at what cost, how well."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedmule.simulator.runs.columns import CONTACTS

FloatArray = NDArray[np.float64]

PERSONAL = "personal_test_acc_mean"
ALONE = "alone_test_acc_mean"  # older runs do not have it
GAIN = "gain_over_alone"
# Bytes sent, which add up, unlike the size of a model; older runs do not have them all.
SENT = tuple(name for name, column in CONTACTS.items() if column.unit == "bytes" and column.summary == "total")
AXES = ("sim_time_s", "host_time_s", "visits", "bytes", "gradient_steps")  # what a run can be measured against


def on_the_air(table: pd.DataFrame) -> pd.Series[Any]:
    """All bytes of each row of contacts, or of a study's index: to and from clients and between vehicles."""
    return table[[name for name in SENT if name in table]].astype(float).sum(axis=1, min_count=1)


def spent(contacts: pd.DataFrame, against: str) -> FloatArray:
    """What a run had spent after each contact [k]: one of AXES."""
    if against not in AXES:
        raise ValueError(f"against = {against!r}: must be one of {', '.join(AXES)}")
    if against == "visits":
        return contacts["visit"].to_numpy(np.float64)
    if against == "bytes":
        return on_the_air(contacts).cumsum().to_numpy(np.float64)
    adds_up = CONTACTS[against].summary == "total"
    return (contacts[against].cumsum() if adds_up else contacts[against]).to_numpy(np.float64)


def to_accuracy(contacts: pd.DataFrame, target: float, against: str = "sim_time_s", metric: str = PERSONAL) -> float:
    """What a run had spent when its accuracy was first at least `target` (0 to 1); nan if it never was."""
    reached = np.flatnonzero(contacts[metric].to_numpy(np.float64) >= target)
    return float(spent(contacts, against)[reached[0]]) if len(reached) else math.nan


def time_to_accuracy(contacts: pd.DataFrame, target: float, metric: str = PERSONAL) -> float:
    """Simulated seconds until the accuracy was first at least `target`; nan if it never was."""
    return to_accuracy(contacts, target, "sim_time_s", metric)


def bytes_to_accuracy(contacts: pd.DataFrame, target: float, metric: str = PERSONAL) -> float:
    """Bytes on the air until the accuracy was first at least `target`; nan if it never was."""
    return to_accuracy(contacts, target, "bytes", metric)


def accuracy_at(contacts: pd.DataFrame, amount: float, against: str = "sim_time_s", metric: str = PERSONAL) -> float:
    """The last accuracy known when a run had spent `amount`; nan before the first and beyond the run's end."""
    known = contacts[metric].notna().to_numpy()
    at, values = spent(contacts, against), contacts[metric].to_numpy(np.float64)
    if not len(at) or amount > at[-1]:
        return math.nan
    before = np.flatnonzero(known & (at <= amount))
    return float(values[before[-1]]) if len(before) else math.nan


def curve(contacts: pd.DataFrame, at: FloatArray, against: str = "sim_time_s", metric: str = PERSONAL) -> FloatArray:
    """The last accuracy known at each of the amounts `at` [k]; nan before the first, the last one held to the end."""
    known = contacts[metric].notna().to_numpy()
    amounts, values = spent(contacts, against)[known], contacts[metric].to_numpy(np.float64)[known]
    position = np.searchsorted(amounts, at, side="right") - 1
    return (
        np.where(position >= 0, values[np.maximum(position, 0)], math.nan)
        if len(values)
        else np.full(len(at), math.nan)
    )


def band(
    runs: Sequence[pd.DataFrame], against: str = "sim_time_s", metric: str = PERSONAL, points: int = 200
) -> pd.DataFrame:
    """Mean accuracy over runs (seeds) with its 95 % interval by Student's t: columns `against`, mean, low, high.

    The last amount is the largest that all runs reached, so that the mean is over the same runs everywhere.
    """
    from scipy.special import stdtrit

    end = min(spent(contacts, against)[-1] for contacts in runs)
    at = np.linspace(0.0, end, points)
    curves = np.stack([curve(contacts, at, against, metric) for contacts in runs])
    mean, n = curves.mean(axis=0), len(runs)
    width = stdtrit(n - 1, 0.975) * curves.std(axis=0, ddof=1) / math.sqrt(n) if n > 1 else np.full(points, math.nan)
    return pd.DataFrame({against: at, "mean": mean, "low": mean - width, "high": mean + width}).dropna(subset=["mean"])
