"""Accuracy over simulated time of every run of a study, on one grid of times."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fedmule.analysis.measures import ALONE, GAIN, PERSONAL, curve
from fedmule.analysis.studies import Study
from fedmule.simulator.runs.columns import QUANTITIES

SHOWN = (PERSONAL, GAIN, "token_test_acc", ALONE)
MOST_POINTS, LEAST_POINTS, MOST_VALUES = 120, 40, 60_000  # of one result over all runs
STEPS = 10_000  # in which shares are stored: hundredths of a percent


def curves_of(study: Study) -> dict[str, Any] | None:
    """Results over time: { end_s, points, results: { name, unit, difference, runs } }; None if no run has any.

    `runs` has a list of values at 0, 1/(points − 1), … of the end for each row of the index: in %, null where unknown.
    """
    rows = study.index.to_dict("records")
    tables = [_contacts(study, row["run"]) if row["status"] == "done" else None for row in rows]
    ends = [0.0 if table is None else _end_s(row, table) for row, table in zip(rows, tables, strict=True)]
    if not any(ends):
        return None
    points = int(min(MOST_POINTS, max(LEAST_POINTS, MOST_VALUES // len(ends))))
    at = np.linspace(0.0, max(ends), points)
    results = []
    for name in SHOWN:
        runs = [
            None if table is None or name not in table else _values(table, name, at, end)
            for table, end in zip(tables, ends, strict=True)
        ]
        if any(run is not None and any(value is not None for value in run) for run in runs):
            column = QUANTITIES[name]
            shown = {"name": column.words, "unit": column.shown.unit, "difference": name == GAIN}
            results.append({**shown, "runs": runs})
    return {"end_s": max(ends), "points": points, "results": results} if results else None


def _contacts(study: Study, run: str) -> pd.DataFrame | None:
    """Times and accuracies of a run's contacts, with the gain over training alone; None if it has none."""
    file = study.folder / run / "contacts.parquet"
    if not file.exists():
        return None
    table = pq.ParquetFile(file)
    wanted = [name for name in ("sim_time_s", *SHOWN) if name in table.schema_arrow.names]
    contacts: pd.DataFrame = table.read(wanted).to_pandas().astype(float).sort_values("sim_time_s", kind="stable")
    if ALONE in contacts:
        contacts[GAIN] = contacts[PERSONAL] - contacts[ALONE]
    return contacts if len(contacts) else None


def _end_s(row: dict[Hashable, Any], contacts: pd.DataFrame) -> float:
    """When the run ended: usually later than its last contact."""
    return float(np.nanmax([contacts["sim_time_s"].iloc[-1], row.get("sim_time_s", math.nan)]))


def _values(contacts: pd.DataFrame, name: str, at: NDArray[np.float64], end: float) -> list[float | None]:
    """The last value known at each time, in %; none before the first and beyond the run's end."""
    found = np.where(at <= end * (1 + 1e-9), curve(contacts, at, metric=name), np.nan)
    return [None if math.isnan(value) else round(value * STEPS) / (STEPS // 100) for value in found.tolist()]
