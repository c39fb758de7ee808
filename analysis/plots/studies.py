"""Results of a study: over one parameter, algorithms side by side, and panels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedmule.analysis.measures import GAIN, PERSONAL
from fedmule.analysis.plots.results import bars, results_of
from fedmule.analysis.plots.style import (
    BLUE,
    GREEN,
    GREY,
    MANY,
    axes_for,
    legend,
    picture,
    picture_of,
    share_legend,
)
from fedmule.analysis.plots.words import axis_of, is_difference, is_number, label_of, named, plain, scale_of, with_value
from fedmule.analysis.studies import Study
from fedmule.simulator.runs.column_kinds import PERCENT
from fedmule.simulator.studies.statistics import interval

RUNS: dict[str, Any] = {"s": 22, "facecolor": "none", "linewidths": 0.8, "zorder": 4}  # rings, seen on bars

Where = dict[str, Any]


def draw_effect(
    study: Study,
    x: str | None = None,
    metric: str = PERSONAL,
    by: str | None = None,
    where: Where | None = None,
    axes: Axes | None = None,
) -> Figure:
    """Draw a result over one parameter: a ring per run, means with 95 % intervals, a line per value of `by`."""
    free = study.free(where)
    x = x or next((key for key in free if key != by), None)
    if x is None:
        raise ValueError(f"{study.folder}: no parameter has several values")
    study.must_be_all(where, x, *([by] if by else []))
    rows = study.chosen(where).assign(result=results_of(study, metric)).dropna(subset=["result"])
    values, axes = study.values(x, where), axes_for(axes, 5.6, 3.8)
    numeric = all(is_number(value) for value in values)
    log = numeric and _is_log(values)
    positions = {value: float(value) if numeric else float(i) for i, value in enumerate(values)}
    groups = study.values(by, where) if by else [None]
    apart = 0.008 * (max(positions.values()) - min(positions.values()))  # so that intervals do not cover each other
    for i, group in enumerate(groups):
        own = rows if by is None else rows[rows[by] == group]
        shift = 0.0 if log else apart * (i - (len(groups) - 1) / 2)
        points = [(positions[v] + shift, *interval(list(cell))) for v, cell in own.groupby(x)["result"]]
        colour, label = MANY[i % len(MANY)], None if by is None else named(group)
        axes.scatter(own[x].map(positions) + shift, own["result"], **RUNS, edgecolor=colour)
        at, means, widths = zip(*sorted(points), strict=True) if points else ((), (), ())
        errors = np.array([bars(metric, mean, width) for mean, width in zip(means, widths, strict=True)]).T
        line = "-" if numeric else ""
        axes.errorbar(
            at,
            means,
            errors if len(at) else None,
            color=colour,
            marker="o",
            markersize=4,
            capsize=3,
            linestyle=line,
            label=label,
        )
    if not numeric:
        axes.set_xticks(range(len(values)), [named(value) for value in values])
        axes.set_xlim(-0.5, len(values) - 0.5)
    elif log:
        axes.set_xscale("log")
    if is_difference(metric):
        axes.axhline(0.0, color=GREY, linewidth=0.8, linestyle="--", zorder=1)
    axes.set(xlabel=label_of(x), ylabel=axis_of(metric))
    axes.grid(alpha=0.3)
    legend(axes, 4, title=label_of(by) if by else None, title_fontsize=8)
    return picture_of(axes)


def draw_comparison(
    study: Study,
    by: str = "learning.algorithm",
    metric: str = PERSONAL,
    reference: Any = "local",
    where: Where | None = None,
) -> Figure:
    """Draw algorithms side by side: each result with its 95 % interval, and its difference from a reference.

    Differences are paired seed by seed, on the same data and movement. If the reference was not run, the first
    algorithm takes its place.
    """
    if by not in study.parameters:
        raise ValueError(f"{study.folder}: {by} was not varied, only {', '.join(study.parameters) or 'nothing'}")
    study.must_be_all(where, by)
    rows = study.chosen(where).assign(result=results_of(study, metric))
    table = rows.pivot_table(index="replication", columns=by, values="result")  # drops runs without a result
    names = [name for name in study.values(by, where) if name in table.columns]
    figure = picture(9.6, 1.3 + 0.36 * max(1, len(names)))
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[1.15, 1.0])
    if not names:
        return figure
    base = reference if reference in names else names[0]
    for i, name in enumerate(names):
        _dot(left, table[name].dropna(), i, GREY if name == base else BLUE, metric)
        if name != base:
            _dot(right, (table[name] - table[base]).dropna(), i, GREEN, GAIN if scale_of(metric) == PERCENT else "")
    left.set_yticks(range(len(names)), [named(name) for name in names])
    left.set_ylim(len(names) - 0.5, -0.5)
    left.set(xlabel=axis_of(metric))
    right.axvline(0.0, color=GREY, linewidth=0.8, linestyle="--")
    unit = " (points)" if scale_of(metric) == PERCENT else ""
    right.set(xlabel=f"difference from {named(base)}, paired by seed{unit}")
    for axes in (left, right):
        axes.grid(alpha=0.3, axis="x")
    return figure


def draw_panels(study: Study, draw: Callable[[Where, Axes], Any], over: list[str], one_scale: bool = False) -> Figure:
    """Draw one panel for every combination of values of the parameters `over`, perhaps with the same vertical scale."""
    combinations = study.done[over].drop_duplicates().to_dict("records")
    across = 2 if len(combinations) == 4 else min(3, len(combinations))
    down = math.ceil(len(combinations) / across)
    figure = picture(4.6 * across, 3.7 * down)
    panels = figure.subplots(down, across, squeeze=False, sharey=one_scale).ravel()
    for where, axes in zip(combinations, panels, strict=False):
        draw({str(key): value for key, value in where.items()}, axes)
        title = ", ".join(with_value(str(key), value) for key, value in where.items())
        axes.set_title(plain(title), fontsize=9)
        if one_scale and axes not in panels[::across]:
            axes.set_ylabel("")
    for axes in panels[len(combinations) :]:
        axes.set_axis_off()
    share_legend(figure)
    return figure


def _dot(axes: Axes, values: pd.Series[Any], position: int, colour: str, metric: str) -> None:
    """Draw the runs, and their mean with its interval."""
    if len(values):
        mean, width = interval(list(values))
        axes.scatter(values, np.full(len(values), position), **RUNS, edgecolor=colour)
        reach = np.array([bars(metric, mean, width)]).T
        axes.errorbar(mean, position, xerr=reach, color=colour, marker="o", markersize=5, capsize=3)


def _is_log(values: list[Any]) -> bool:
    """Whether numbers are spread so widely that a logarithmic axis shows them better."""
    return len(values) > 2 and min(values) > 0 and max(values) / min(values) >= 50
