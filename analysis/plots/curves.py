"""Accuracy against what it cost: simulated time, host time, visits, bytes or gradient steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedmule.analysis.loading import Run
from fedmule.analysis.measures import AXES, PERSONAL, SENT, band, spent
from fedmule.analysis.plots.style import BLUE, GREEN, MANY, MAP, axes_for, legend, picture, picture_of
from fedmule.analysis.plots.words import METRICS, is_number, label_of, named
from fedmule.analysis.studies import Study

SCALES = {name: METRICS[name] for name in AXES}
COSTS = ("sim_time_s", "host_time_s", "visits", "bytes")
COLUMNS = ("visit", "sim_time_s", "host_time_s", *SENT, "gradient_steps")
MODELS = {PERSONAL: ("personal models", GREEN), "token_test_acc": ("token", BLUE)}
STYLES = ("-", "--", ":", "-.")


def draw_accuracy(runs: Run | Sequence[Run], against: str = "sim_time_s", axes: Axes | None = None) -> Figure:
    """Test accuracy of personal models and token; of several runs (seeds) the mean and its 95 % band."""
    axes = axes_for(axes)
    tables = [run.contacts for run in ([runs] if isinstance(runs, Run) else runs)]
    for metric, (name, colour) in MODELS.items():
        _draw_band(tables, axes, against, metric, color=colour, label=name)
    return _finish(axes, against, "test accuracy, mean over clients (%)")


def draw_curves(
    groups: Study | Mapping[str, Sequence[Run]],
    against: str = "sim_time_s",
    by: str | None = None,
    where: dict[str, Any] | None = None,
    metric: str = PERSONAL,
    axes: Axes | None = None,
) -> Figure:
    """A curve per group with its 95 % band over seeds: named lists of runs, or a study's runs by a parameter."""
    axes = axes_for(axes)
    if isinstance(groups, Study):
        by = by or groups.free(where)[0]
        tables, title = _by_value(groups, by, where, metric), label_of(by)
    else:
        tables, title = {name: [run.contacts for run in runs] for name, runs in groups.items()}, ""
    for i, (value, runs) in enumerate(tables.items()):
        style = STYLES[i // len(MANY) % len(STYLES)]
        _draw_band(runs, axes, against, metric, color=_colour(list(tables), i), label=named(value), linestyle=style)
    _finish(axes, against, METRICS[metric][1] if metric in METRICS else metric)
    if tables:
        legend(axes, 4, title=title or None, title_fontsize=8)
    return picture_of(axes)


def draw_costs(what: Run | Sequence[Run] | Study, by: str | None = None, where: dict[str, Any] | None = None) -> Figure:
    """Accuracy against simulated time, host time, visits and bytes, four panels; of a study a curve per value."""
    figure = picture(11.0, 7.4)
    for axes, against in zip(figure.subplots(2, 2, sharey=True).ravel(), COSTS, strict=True):
        if isinstance(what, Study):
            draw_curves(what, against, by, where, axes=axes)
        else:
            draw_accuracy(what, against, axes)
    return figure


def _by_value(study: Study, by: str, where: dict[str, Any] | None, metric: str) -> dict[Any, list[pd.DataFrame]]:
    """The contacts of each run, by the parameter's value."""
    study.must_be_all(where, by)
    table = study.contacts([*COLUMNS, metric], where)
    if table.empty:
        return {}
    values = list(study.values(by, where))
    groups = dict(iter(table.groupby(by)))
    return {value: [rows for _, rows in groups[value].groupby("run")] for value in values if value in groups}


def _colour(values: list[Any], i: int) -> Any:
    """Numbers from dark to light, words in colours that differ."""
    if len(values) > 2 and all(is_number(value) for value in values):
        return colormaps[MAP](0.9 * i / (len(values) - 1))
    return MANY[i % len(MANY)]


def _draw_band(tables: Sequence[pd.DataFrame], axes: Axes, against: str, metric: str, **style: Any) -> None:
    if against not in AXES:
        raise ValueError(f"against = {against!r}: must be one of {', '.join(AXES)}")
    looked = [(table, table[metric].notna().to_numpy()) for table in tables]
    known, scale = [(table, rows) for table, rows in looked if rows.any()], SCALES[against][0]
    if not known:
        return
    last = float(np.mean([table[metric][rows].iloc[-1] for table, rows in known]))
    if all(spent(table, against)[-1] == 0 for table, _ in known):  # local training sends nothing: a level, no curve
        axes.axhline(100 * last, **{**style, "linestyle": ":", "label": f"{style['label']} (at no such cost)"})
    elif len(known) == 1:
        table, rows = known[0]
        marker = "." if rows.sum() < 60 else ""
        axes.plot(spent(table, against)[rows] / scale, 100 * table[metric][rows], marker=marker, **style)
    else:
        found = band([table for table, _ in known], against, metric)
        axes.plot(found[against] / scale, 100 * found["mean"], **style)
        low, high = (100 * found[edge].clip(0, 1) for edge in ("low", "high"))
        axes.fill_between(found[against] / scale, low, high, color=style["color"], alpha=0.2, linewidth=0)


def _finish(axes: Axes, against: str, ylabel: str) -> Figure:
    axes.set(xlabel=SCALES[against][1], ylabel=ylabel, ylim=(0, 102))
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    legend(axes, 2)
    return picture_of(axes)
