"""Results of a study: over one parameter or two, and algorithms side by side."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedmule.analysis.measures import GAIN, PERSONAL, on_the_air
from fedmule.analysis.plots.style import BLUE, GAINS, GREEN, GREY, MANY, MAP, axes_for, legend, picture, picture_of
from fedmule.analysis.plots.words import axis_of, is_number, label_of, named, scale_of
from fedmule.analysis.studies import Study
from fedmule.simulator.runs.column_kinds import PERCENT
from fedmule.simulator.studies.statistics import interval

Where = dict[str, Any]


def draw_heat(
    study: Study,
    x: str | None = None,
    y: str | None = None,
    metric: str | None = None,
    where: Where | None = None,
    axes: Axes | None = None,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """Draw a result over two parameters: mean over seeds ± 95 % interval in every cell, hatched where there is none.

    By default the gain over training alone, where it is known: is the vehicle worth it? Below 0 it is red, above blue.
    """
    free = study.free(where)
    x = x or next((key for key in free if key != y), None)
    y = y or next((key for key in free if key != x), None)
    if x is None or y is None:
        raise ValueError(f"{study.folder}: a heat map needs two parameters with several values")
    study.must_be_all(where, x, y)
    metric = metric or (GAIN if has_gain(study) else PERSONAL)
    rows = study.chosen(where).assign(result=_results(study, metric))
    across, down = study.values(x, where), study.values(y, where)
    cells = {pair: list(cell) for pair, cell in rows.groupby([x, y])["result"]}
    means = np.array([[_mean(cells.get((a, b), [])) for a in across] for b in down])
    axes = axes_for(axes, 2.6 + 0.95 * len(across), 1.7 + 0.62 * len(down))
    low, high = limits or _limits(means, metric)
    colours = GAINS if metric == GAIN else MAP
    drawn = axes.imshow(means, cmap=colours, vmin=low, vmax=high, aspect="auto", origin="lower")
    for i, b in enumerate(down):
        for j, a in enumerate(across):
            shade = colormaps[colours]((means[i, j] - low) / ((high - low) or 1.0))
            _cell(axes, j, i, cells.get((a, b), []), dark=sum(shade[:3]) < 1.6)
    axes.set(xlabel=label_of(x), ylabel=label_of(y))
    axes.set_xticks(range(len(across)), [named(value) for value in across])
    axes.set_yticks(range(len(down)), [named(value) for value in down])
    picture_of(axes).colorbar(drawn, ax=axes, label=axis_of(metric))
    return picture_of(axes)


def draw_effect(
    study: Study,
    x: str | None = None,
    metric: str = PERSONAL,
    by: str | None = None,
    where: Where | None = None,
    axes: Axes | None = None,
) -> Figure:
    """Draw a result over one parameter: a dot per run, means with 95 % intervals, a line per value of `by`."""
    free = study.free(where)
    x = x or next((key for key in free if key != by), None)
    if x is None:
        raise ValueError(f"{study.folder}: no parameter has several values")
    study.must_be_all(where, x, *([by] if by else []))
    rows = study.chosen(where).assign(result=_results(study, metric)).dropna(subset=["result"])
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
        axes.scatter(own[x].map(positions) + shift, own["result"], s=9, color=colour, alpha=0.35, linewidths=0)
        at, means, widths = zip(*sorted(points), strict=True) if points else ((), (), ())
        errors = [0.0 if width is None else width for width in widths]
        line = "-" if numeric else ""
        axes.errorbar(at, means, errors, color=colour, marker="o", markersize=4, capsize=3, linestyle=line, label=label)
    if not numeric:
        axes.set_xticks(range(len(values)), [named(value) for value in values])
        axes.set_xlim(-0.5, len(values) - 0.5)
    elif log:
        axes.set_xscale("log")
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
    rows = study.chosen(where).assign(result=_results(study, metric))
    table = rows.pivot_table(index="replication", columns=by, values="result")  # drops runs without a result
    names = [name for name in study.values(by, where) if name in table.columns]
    figure = picture(9.6, 1.3 + 0.36 * max(1, len(names)))
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[1.15, 1.0])
    if not names:
        return figure
    base = reference if reference in names else names[0]
    for i, name in enumerate(names):
        _dot(left, table[name].dropna(), i, GREY if name == base else BLUE)
        if name != base:
            _dot(right, (table[name] - table[base]).dropna(), i, GREEN)
    left.set_yticks(range(len(names)), [named(name) for name in names])
    left.set_ylim(len(names) - 0.5, -0.5)
    left.set(xlabel=axis_of(metric))
    right.axvline(0.0, color=GREY, linewidth=0.8, linestyle="--")
    unit = " (points)" if scale_of(metric) == PERCENT else ""
    right.set(xlabel=f"difference from {named(base)}, paired by seed{unit}")
    for axes in (left, right):
        axes.grid(alpha=0.3, axis="x")
    return figure


def draw_panels(study: Study, draw: Callable[[Where, Axes], Any], over: list[str], width_in: float = 4.6) -> Figure:
    """Draw one panel for every combination of values of the parameters `over`."""
    combinations = study.done[over].drop_duplicates().to_dict("records")
    across = min(3, len(combinations))
    down = math.ceil(len(combinations) / across)
    figure = picture(width_in * across, 3.7 * down)
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for where, axes in zip(combinations, panels, strict=False):
        draw({str(key): value for key, value in where.items()}, axes)
        title = ", ".join(f"{label_of(str(key))} = {named(value)}" for key, value in where.items())
        axes.set_title(title, fontsize=9)
    for axes in panels[len(combinations) :]:
        axes.set_axis_off()
    return figure


def heat_limits(study: Study, metric: str) -> tuple[float, float]:
    """Lowest and highest mean of any point, so that heat maps side by side share a scale."""
    means = _results(study, metric).groupby([study.index[key] for key in study.parameters]).mean().to_numpy()
    return _limits(means, metric)


def has_gain(study: Study) -> bool:
    """Tell whether the gain over training alone is known of any run."""
    return GAIN in study.index and bool(study.index[GAIN].notna().any())


def _limits(means: np.ndarray[Any, Any], metric: str) -> tuple[float, float]:
    """The lowest and highest value of a colour scale; 0 is in the middle of gains."""
    low, high = _least(means), _most(means)
    most = max(-low, high)
    return (-most, most) if metric == GAIN else (low, high)


def _results(study: Study, metric: str) -> pd.Series[Any]:
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


def _cell(axes: Axes, j: int, i: int, results: list[float], dark: bool) -> None:
    """Write mean ± interval of the runs that have a result, and how many they are if some have none."""
    known = [value for value in results if not math.isnan(value)]
    if not known:
        axes.add_patch(_hatched(j, i))
        return
    mean, width = interval(known)
    text = _digits(mean) + ("" if width is None else f"\n± {_digits(width)}")
    text += "" if len(known) == len(results) else f"\n({len(known)} of {len(results)})"
    axes.text(j, i, text, ha="center", va="center", fontsize=8, color="white" if dark else "black", linespacing=1.3)


def _mean(results: list[float]) -> float:
    known = [value for value in results if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def _hatched(j: int, i: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor="white", edgecolor=GREY, hatch="///", linewidth=0)


def _dot(axes: Axes, values: pd.Series[Any], position: int, colour: str) -> None:
    if len(values):
        mean, width = interval(list(values))
        axes.scatter(
            values, np.full(len(values), position), s=26, facecolor="none", edgecolor=colour, linewidths=0.8, zorder=4
        )
        axes.errorbar(mean, position, xerr=width or 0.0, color=colour, marker="o", markersize=5, capsize=3)


def _digits(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _is_log(values: list[Any]) -> bool:
    """Whether numbers are spread so widely that a logarithmic axis shows them better."""
    return len(values) > 2 and min(values) > 0 and max(values) / min(values) >= 50


def _least(values: np.ndarray[Any, Any]) -> float:
    return float(np.nanmin(values)) if np.isfinite(values).any() else 0.0


def _most(values: np.ndarray[Any, Any]) -> float:
    return float(np.nanmax(values)) if np.isfinite(values).any() else 1.0
