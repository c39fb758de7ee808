"""Accuracy against cost: simulated time, host time, visits, bytes or gradient steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedmule.analysis.loading import Run
from fedmule.analysis.measures import ALONE, AXES, PERSONAL, SENT, band, spent
from fedmule.analysis.plots.style import (
    BLUE,
    GREEN,
    GREY,
    MANY,
    MAP,
    axes_for,
    legend,
    picture,
    picture_of,
    share_legend,
)
from fedmule.analysis.plots.words import axis_of, is_number, label_of, named, scale_of
from fedmule.analysis.studies import Study

COSTS = ("sim_time_s", "host_time_s", "visits", "bytes")
COLUMNS = ("visit", "sim_time_s", "host_time_s", *SENT, "gradient_steps")
MODELS = {
    PERSONAL: ("personal models", GREEN),
    "token_test_acc": ("token", BLUE),
    ALONE: ("training alone", GREY),
}
STYLES = ("-", "--", ":", "-.")


def draw_accuracy(runs: Run | Sequence[Run], against: str = "sim_time_s", axes: Axes | None = None) -> Figure:
    """Draw the test accuracy of personal models, token and training alone; for several runs the mean and 95 % band."""
    axes = axes_for(axes)
    tables = [run.contacts for run in ([runs] if isinstance(runs, Run) else runs)]
    for metric, (name, colour) in MODELS.items():
        _draw_band(tables, axes, against, metric, color=colour, label=name, linestyle="--" if metric == ALONE else "-")
    return _finish(axes, against, "test accuracy, mean over clients (%)")


def draw_curves(
    groups: Study | Mapping[str, Sequence[Run]],
    against: str = "sim_time_s",
    by: str | None = None,
    where: dict[str, Any] | None = None,
    metric: str = PERSONAL,
    axes: Axes | None = None,
) -> Figure:
    """Draw a curve per group with its 95 % band over seeds.

    Groups are named lists of runs, or a study's runs by the values of the parameter `by`.
    """
    axes = axes_for(axes)
    if isinstance(groups, Study):
        by = by or groups.free(where)[0]
        tables, title = _by_value(groups, by, where, metric), label_of(by)
    else:
        tables, title = {name: [run.contacts for run in runs] for name, runs in groups.items()}, ""
    for i, (value, runs) in enumerate(tables.items()):
        style = STYLES[i // len(MANY) % len(STYLES)]
        look = {"color": _colour(list(tables), i), "label": named(value), "linestyle": style}
        _draw_band(runs, axes, against, metric, shade=min(0.2, 0.8 / len(tables)), **look)
    _finish(axes, against, axis_of(metric))
    if tables:
        legend(axes, 4, title=title or None, title_fontsize=8)
    return picture_of(axes)


def draw_costs(what: Run | Sequence[Run] | Study, by: str | None = None, where: dict[str, Any] | None = None) -> Figure:
    """Draw accuracy against simulated time, host time, visits and bytes; for a study, a curve per value of `by`."""
    figure = picture(11.0, 7.4)
    for axes, against in zip(figure.subplots(2, 2, sharey=True).ravel(), COSTS, strict=True):
        if isinstance(what, Study):
            draw_curves(what, against, by, where, axes=axes)
        else:
            draw_accuracy(what, against, axes)
    share_legend(figure)
    return figure


def _by_value(study: Study, by: str, where: dict[str, Any] | None, metric: str) -> dict[Any, list[pd.DataFrame]]:
    """Contacts of each run, grouped by the parameter's value."""
    study.must_be_all(where, by)
    table = study.contacts([*COLUMNS, metric], where)
    if table.empty:
        return {}
    values = list(study.values(by, where))
    groups = dict(iter(table.groupby(by)))
    return {value: [rows for _, rows in groups[value].groupby("run")] for value in values if value in groups}


def _colour(values: list[Any], i: int) -> Any:
    """Colour of a group: numbers run from dark to light, other values get distinct colours."""
    if len(values) > 2 and all(is_number(value) for value in values):
        return colormaps[MAP](0.9 * i / (len(values) - 1))
    return MANY[i % len(MANY)]


def _draw_band(
    tables: Sequence[pd.DataFrame], axes: Axes, against: str, metric: str, shade: float = 0.2, **style: Any
) -> None:
    """Draw the curve of one run, or the mean of several with its band, which is as opaque as `shade` says."""
    if against not in AXES:
        raise ValueError(f"against = {against!r}: must be one of {', '.join(AXES)}")
    evaluated = [(table, table[metric].notna().to_numpy()) for table in tables if metric in table]
    known, size = [(table, rows) for table, rows in evaluated if rows.any()], scale_of(against).size
    if not known:
        return
    last = float(np.mean([table[metric][rows].iloc[-1] for table, rows in known]))
    if all(
        spent(table, against)[-1] == 0 for table, _ in known
    ):  # local training sends nothing: a level instead of a curve
        axes.axhline(100 * last, **{**style, "linestyle": ":", "label": f"{style['label']} (at no cost)"})
    elif len(known) == 1:
        table, rows = known[0]
        marker = "." if rows.sum() < 60 else ""
        axes.plot(spent(table, against)[rows] / size, 100 * table[metric][rows], marker=marker, **style)
    else:
        found = band([table for table, _ in known], against, metric)
        axes.plot(found[against] / size, 100 * found["mean"], **style)
        low, high = (100 * found[edge].clip(0, 1) for edge in ("low", "high"))
        axes.fill_between(found[against] / size, low, high, color=style["color"], alpha=shade, linewidth=0)


def _finish(axes: Axes, against: str, ylabel: str) -> Figure:
    together = axes.get_shared_y_axes().get_siblings(axes)
    lowest = min((panel.dataLim.y0 for panel in together if panel.has_data()), default=0.0)
    axes.set(xlabel=axis_of(against), ylabel=ylabel, ylim=(min(80.0, max(0.0, 10 * ((lowest - 1) // 10))), 102))
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    legend(axes, 3)
    return picture_of(axes)
