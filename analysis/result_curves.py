"""Curves that compare many runs: accuracy against visits or gradient steps. Reads run folders only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedmule.analysis.result_tables import Entry
from fedmule.simulator.runs.tables import read_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]

# Colour-blind safe (Tol's muted scheme).
COLOURS = (
    "#332288", "#cc6677", "#117733", "#ddaa33", "#88ccee", "#882255", "#44aa99", "#999933", "#aa4499", "#000000",
)  # fmt: skip

DRAWN = (0.02, 0.998)  # accuracies beyond these are drawn at the edge
AXES = {"visits": "visits, or rounds of a server", "gradients": "gradient steps per client"}


def draw_curves(entries: Sequence[Entry], against: str) -> Figure:
    """Accuracy against "visits" or "gradients" per client, mean and range over seeds.

    A panel per row, a colour per column; personal models solid, the token dashed.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    colours = dict(zip(dict.fromkeys(e.column for e in entries), itertools.cycle(COLOURS), strict=False))
    drawn = [entry for entry in entries if entry.runs]
    rows, columns = list(dict.fromkeys(e.row for e in drawn)), list(dict.fromkeys(e.column for e in drawn))
    across = min(3, len(rows))
    down = math.ceil(len(rows) / across)
    figure = Figure(figsize=(4.6 * across + 1.6, 3.4 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for row, axes in zip(rows, panels, strict=False):
        for entry in drawn:
            if entry.row == row:
                _draw_entry(entry, axes, against, colours[entry.column])
        _set_axes(axes, row, against)
    for axes in panels[len(rows) :]:
        axes.set_axis_off()
    lines = [Line2D([], [], color=colours[column], label=column) for column in columns]
    lines += [Line2D([], [], color="grey", label="personal"), Line2D([], [], color="grey", ls="--", label="token")]
    figure.legend(handles=lines, loc="outside right upper", fontsize=8, frameon=False)
    return figure


def _set_axes(axes: Axes, title: str, against: str) -> None:
    """Accuracy on a logit scale, where 98 and 99 % are as far apart as 50 and 67 %; visits on a log scale."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_yscale("logit")
    axes.yaxis.set_major_locator(FixedLocator([0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    if against == "visits":
        axes.set_xscale("log")
    axes.set(title=title, ylabel="test accuracy (%)", xlabel=AXES[against])
    axes.grid(alpha=0.3)


def _draw_entry(entry: Entry, axes: Axes, against: str, colour: str) -> None:
    runs = [_curves(folder, entry.summaries[seed], against) for seed, folder in entry.runs.items()]
    last = max(run[0][-1] for run in runs)
    x = np.geomspace(1, max(1, last), 200) if against == "visits" else np.linspace(0, last, 200)
    personal = np.stack([np.interp(x, run[0], run[1]) for run in runs]).clip(*DRAWN)
    axes.plot(x, personal.mean(axis=0), color=colour, linewidth=1.3)
    if len(runs) > 1:
        axes.fill_between(x, personal.min(axis=0), personal.max(axis=0), color=colour, alpha=0.15, linewidth=0)
    if not entry.is_local:
        token = np.stack([np.interp(x, run[2], run[3]) for run in runs]).clip(*DRAWN)
        axes.plot(x, token.mean(axis=0), color=colour, linewidth=0.9, linestyle="--")


def _curves(folder: Path, summary: dict[str, Any], against: str) -> tuple[FloatArray, ...]:
    """x and personal accuracy of a run, then x and token accuracy where it was evaluated."""
    wanted = ["visit", "gradient_steps", "personal_test_acc_mean", "token_test_acc"]
    contacts = read_table(folder, "contacts").select(wanted).to_pandas()
    x = contacts["visit"] if against == "visits" else contacts["gradient_steps"].cumsum() / summary["clients"]
    start, found = summary["start_personal_test_acc_mean"], []
    for column in wanted[-2:]:
        known = contacts[column].notna()
        found += [np.append(0.0, x[known].to_numpy(np.float64)), np.append(start, contacts[column][known])]
    return tuple(found)
