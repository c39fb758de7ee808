"""Heat maps of a study: a result over two parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedmule.analysis.measures import GAIN, PERSONAL
from fedmule.analysis.plots.results import has_gain, results_of
from fedmule.analysis.plots.style import GAINS, GREY, MAP, axes_for, picture_of, slant
from fedmule.analysis.plots.words import axis_of, is_difference, is_share, label_of, named
from fedmule.analysis.studies import Study
from fedmule.simulator.studies.statistics import interval

LEAST_POINTS = 5.0  # from the middle of a scale of shares to its ends, so that small differences stay pale
LEAST_WIDTHS = 2.0  # the same, in half-widths of an interval
LETTERS_A_CELL = 10  # of a label below it
UNCLEAR = "hatched: the 95 % interval includes 0"

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
    """Draw a result over two parameters: mean over seeds ± 95 % interval in every cell, grey where no run is done.

    By default the gain over training alone, where it is known: is the vehicle worth it? Below 0 it is red, above blue,
    and hatched where the interval includes 0.
    """
    free = study.free(where)
    x = x or next((key for key in free if key != y), None)
    y = y or next((key for key in free if key != x), None)
    if x is None or y is None:
        raise ValueError(f"{study.folder}: a heat map needs two parameters with several values")
    study.must_be_all(where, x, y)
    metric = metric or (GAIN if has_gain(study) else PERSONAL)
    rows = study.index.assign(result=results_of(study, metric).where(study.index["status"] == "done"))
    for key, value in (where or {}).items():
        rows = rows[rows[key] == value]
    across, down = study.values(x, where), study.values(y, where)
    cells = {pair: list(cell) for pair, cell in rows.groupby([x, y])["result"]}
    stated = [[_stated(cells.get((a, b), [])) for a in across] for b in down]
    means = np.array([[mean for mean, _ in row] for row in stated])
    low, high = limits or _limits([each for row in stated for each in row], metric)
    own_figure = axes is None
    axes = axes_for(axes, 2.6 + 0.95 * len(across), 1.7 + 0.62 * len(down))
    colours = colormaps[GAINS if is_difference(metric) else MAP]
    drawn = axes.imshow(means, cmap=colours, vmin=low, vmax=high, aspect="auto", origin="lower")
    axes.set_facecolor("#dddddd")
    for i, b in enumerate(down):
        for j, a in enumerate(across):
            shade = colours((means[i, j] - low) / ((high - low) or 1.0))
            _cell(axes, j, i, cells.get((a, b), []), metric, shade)
    axes.set(xlabel=label_of(x), ylabel=label_of(y))
    axes.set_xticks(range(len(across)), [named(value) for value in across])
    axes.set_yticks(range(len(down)), [named(value) for value in down])
    slant(axes, LETTERS_A_CELL * len(across))
    picture_of(axes).colorbar(drawn, ax=axes, label=axis_of(metric))
    if own_figure and axes.patches:
        axes.set_title(UNCLEAR, fontsize=8, color=GREY)
    return picture_of(axes)


def heat_limits(study: Study, metric: str) -> tuple[float, float]:
    """A scale that fits the mean of any point, so that heat maps side by side share it."""
    groups = results_of(study, metric)[study.index["status"] == "done"].groupby(
        [study.index[key] for key in study.parameters]
    )
    return _limits([_stated(list(group)) for _, group in groups], metric)


def _limits(stated: list[tuple[float, float]], metric: str) -> tuple[float, float]:
    """The lowest and highest value of a colour scale: wider than noise, and of gains with 0 in the middle."""
    means, widths = (
        np.array([value for value in values if math.isfinite(value)]) for values in zip(*stated, strict=True)
    )
    if not len(means):
        return 0.0, 1.0
    low, high = float(means.min()), float(means.max())
    least = max(LEAST_POINTS * is_share(metric), LEAST_WIDTHS * float(np.median(widths)) if len(widths) else 0.0)
    if is_difference(metric):
        most = max(-low, high, least)
        return -most, most
    middle, half = (low + high) / 2, max((high - low) / 2, least)
    bottom = 0.0 if low >= 0 else -math.inf  # amounts are not below 0, accuracies not above 100 %
    top = 100.0 if is_share(metric) else math.inf
    return max(bottom, min(middle, top - half) - half), min(top, max(middle, bottom + half) + half)


def _stated(results: list[float]) -> tuple[float, float]:
    """Mean and half-width of the results that are known; nan where there are none."""
    known = [value for value in results if not math.isnan(value)]
    if not known:
        return math.nan, math.nan
    mean, width = interval(known)
    return mean, math.nan if width is None else width


def _cell(axes: Axes, j: int, i: int, results: list[float], metric: str, shade: tuple[float, ...]) -> None:
    """Write mean ± interval of the runs that have a result, and how many they are if some have none."""
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import withStroke

    mean, width = _stated(results)
    known = sum(math.isfinite(result) for result in results)
    colour = "white" if known and sum(shade[:3]) < 1.6 else "black"
    text = _number(mean, metric) if math.isfinite(mean) else "–"
    text += f"\n± {_number(width, metric, of_width=True)}" if math.isfinite(width) else ""
    text += f"\n({known} of {len(results)})" if 0 < known < len(results) else ""
    halo = []
    if is_difference(metric) and abs(mean) <= width:
        lines = Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, edgecolor=colour, alpha=0.18, hatch="///", linewidth=0)
        axes.add_patch(lines)
        halo = [withStroke(linewidth=4, foreground=shade)]
    axes.text(j, i, text, ha="center", va="center", fontsize=8, color=colour, linespacing=1.3, path_effects=halo)


def _number(value: float, metric: str, of_width: bool = False) -> str:
    if is_share(metric):
        signed = is_difference(metric) and not of_width
        return f"{round(value, 1) + 0.0:+.1f}".replace("-", "−") if signed else f"{value:.1f}"
    digits = 2 if of_width else 3
    return f"{value:.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"
