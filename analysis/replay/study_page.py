"""The page of a study: what it found, maps over its parameters, curves over time, and a table of all its runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from fedmule.analysis.findings import findings
from fedmule.analysis.measures import GAIN, on_the_air
from fedmule.analysis.plots.words import in_words, is_difference, is_share, unbroken, with_words
from fedmule.analysis.replay.page import page
from fedmule.analysis.replay.study_curves import curves_of
from fedmule.analysis.studies import Study
from fedmule.simulator.runs.columns import QUANTITIES

STYLES = ("base.css", "study.css")
SCRIPTS = (
    *("text.js", "colours.js", "theme.js", "filtered_runs.js", "scale.js", "heat.js"),
    *("study_curves.js", "table.js", "study.js"),
)

# Results by their names in the index, or derived from it. The first ones are in the table at once; the others can be
# chosen.
IN_TABLE = ("personal_test_acc_mean", "token_test_acc", "gain_over_alone", "visits", "sim_time_s", "bytes")
RESULTS = (
    *IN_TABLE,
    *("alone_test_acc_mean", "clients_better_off", "clients_worse_off"),
    *("personal_test_acc_weighted", "personal_validation_acc_mean", "late_token_test_acc", "late_personal_test_acc"),
    *("clients_visited", "clients_reached", "missed", "delivered_share", "gradient_steps", "bytes_down", "bytes_up"),
    *("travel_s", "airtime_s", "host_time_s", "train_loss", "violation_rms", "lyapunov"),
)
MOST_T = 200  # values; for more of them Student's t hardly changes


def study_page(study: Study, links: Mapping[str, str]) -> str:
    """The HTML page of a study, complete or not; `links` are the pages of its runs, by their names in the index."""
    index = study.index.assign(**_derived(study.index))
    results = [name for name in RESULTS if name in index and index[name].notna().any()]
    free = study.begun().free()
    content = {
        "name": study.study["name"],
        "title": with_words(study.study["title"], study.parameters),
        "findings": [unbroken(sentence) for sentence in findings(study)] or ["No run is done yet."],
        "parameters": [_parameter(key, index[key], key in free) for key in study.parameters],
        "results": [_result(name) for name in results],
        "in_map": results.index(GAIN) if GAIN in results else 0,
        "in_table": sum(name in IN_TABLE for name in results),
        "runs": [_run(dict(row), study.parameters, results, links) for _, row in index.iterrows()],
        "curves": curves_of(study),
        "t975": _t975(min(len(index), MOST_T)),
    }
    return page("study.html", STYLES, SCRIPTS, f"{content['name']} · Fedmule study", content, "")


def _derived(index: pd.DataFrame) -> dict[str, Any]:
    """Results that follow from others."""
    found = {}
    if {"bytes_down", "bytes_up"} <= set(index):
        found["bytes"] = on_the_air(index)
    if {"active", "delivered"} <= set(index):
        found["delivered_share"] = index["delivered"] / index["active"].where(index["active"] > 0)
    return found


def _parameter(key: str, column: pd.Series[Any], free: bool) -> dict[str, Any]:
    name, unit = in_words(key)
    return {"key": key, "name": name, "unit": unit, "values": _values(column), "free": free}


def _result(name: str) -> dict[str, Any]:
    column = QUANTITIES[name]
    kinds = {"share": is_share(name), "difference": is_difference(name)}
    return {"name": column.words, "unit": column.shown.unit, **kinds}


def _run(row: dict[str, Any], parameters: list[str], results: list[str], links: Mapping[str, str]) -> dict[str, Any]:
    done = row["status"] == "done"  # means are over these
    return {
        "run": row["run"],
        "parameters": [_plain(row[key]) for key in parameters],
        "seed": int(row["seed"]),
        "replication": int(row["replication"]),
        "status": row["status"],
        "error": _plain(row["error"]),
        "results": [_scaled(row[name], QUANTITIES[name].shown.size) if done else None for name in results],
        "link": links.get(row["run"]),
    }


def _values(column: pd.Series[Any]) -> list[Any]:
    """The values of a parameter: numbers ascending, words as they come."""
    values = list(dict.fromkeys(_plain(value) for value in column))
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return sorted(values) if numbers else values


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _scaled(value: Any, size: float) -> float | None:
    if value is None or pd.isna(value) or not math.isfinite(value):
        return None
    return float(f"{float(value) / size:.6g}")


def _t975(most: int) -> list[float]:
    """Student's t for the 95 % intervals of 2, 3, … values."""
    from scipy.special import stdtrit

    return [round(float(stdtrit(n - 1, 0.975)), 4) for n in range(2, most + 1)]
