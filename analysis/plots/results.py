"""Results of a study's runs in the units in which figures show them, and what is possible of them."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from fedmule.analysis.measures import GAIN, on_the_air
from fedmule.analysis.plots.words import is_difference, is_share, scale_of
from fedmule.analysis.studies import Study
from fedmule.simulator.runs.column_kinds import WHOLE
from fedmule.simulator.runs.columns import QUANTITIES


def has_gain(study: Study) -> bool:
    """Tell whether the gain over training alone is known of any run."""
    return GAIN in study.index and bool(study.index[GAIN].notna().any())


def results_of(study: Study, metric: str) -> pd.Series[Any]:
    """The result of every run, in the unit in which it is shown."""
    index = study.index
    if metric == "bytes" and "bytes_down" in index:
        column = on_the_air(index)
    elif metric in index and pd.api.types.is_numeric_dtype(index[metric]):
        column = index[metric]
    else:
        numeric = [str(name) for name in index.select_dtypes("number") if name not in (*study.parameters, "seed")]
        raise ValueError(
            f"metric = {metric!r}: must be bytes or a numeric column of the study's index: {', '.join(numeric)}"
        )
    scaled: pd.Series[Any] = column.astype(float) / scale_of(metric).size
    return scaled


def bars(metric: str, mean: float, width: float | None) -> tuple[float, float]:
    """How far an interval reaches below and above its mean, no further than is possible of the result."""
    low, high = _possible(metric)
    return (min(width, max(0.0, mean - low)), min(width, max(0.0, high - mean))) if width else (0.0, 0.0)


def _possible(metric: str) -> tuple[float, float]:
    """The least and the largest value of a result: shares lie between 0 and 100 %, times and counts above 0."""
    if is_share(metric):
        return (-100.0 if is_difference(metric) else 0.0), 100.0
    column = QUANTITIES.get(metric)
    is_amount = column is not None and (column.unit in ("s", "bytes", "m") or column.type == WHOLE)
    return (0.0 if is_amount else -math.inf), math.inf
