"""Comparisons of many runs: tables of accuracy and cost, and curves. Reads run folders only."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedmule.analysis.measures import SENT
from fedmule.simulator.runs.tables import read_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]
Table = list[list[str]]  # the first row is the header

# Colour-blind safe (Tol's muted scheme).
COLOURS = (
    "#332288", "#cc6677", "#117733", "#ddaa33", "#88ccee", "#882255", "#44aa99", "#999933", "#aa4499", "#000000",
)  # fmt: skip

LATE = ("late_token_test_acc", "late_personal_test_acc")  # of clients that joined late
DRAWN = (0.02, 0.998)  # accuracies beyond are drawn at the edge
AXES = {"visits": "visits, or rounds of a server", "gradients": "gradient steps per client"}


@dataclass(frozen=True)
class Cell:
    """A row × column of a comparison: the folders of its finished runs, a seed each, and what is published."""

    row: str
    column: str
    folders: tuple[Path, ...]
    seeds: int  # wanted
    chosen: str = ""  # hyper-parameters found by tuning
    published: float | None = None  # %
    published_s: float | None = None

    @cached_property
    def summaries(self) -> list[dict[str, Any]]:
        return [json.loads((folder / "summary.json").read_text(encoding="utf-8")) for folder in self.folders]

    def values(self, name: str) -> list[float]:
        """A column of the summaries; nan where it is null."""
        return [math.nan if s[name] is None else float(s[name]) for s in self.summaries]


def interval(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and half-width of the 95 % interval by Student's t: t·s/√n with n − 1 degrees; None for one value."""
    from scipy.special import stdtrit

    n = len(values)
    if n < 2:
        return float(np.mean(values)), None
    return float(np.mean(values)), float(stdtrit(n - 1, 0.975) * np.std(values, ddof=1) / math.sqrt(n))


# --- tables -------------------------------------------------------------------------------------------------


def accuracy_table(cells: Sequence[Cell]) -> Table:
    """Personal test accuracy in %, columns of the comparison down and its rows across, published figures below."""
    rows, columns = list(dict.fromkeys(c.row for c in cells)), list(dict.fromkeys(c.column for c in cells))
    by_position = {(c.row, c.column): c for c in cells}
    table = [["personal test accuracy, %", *rows]]
    for column in columns:
        line = [by_position.get((row, column)) for row in rows]
        table.append([column, *("" if c is None else _accuracy(c, "personal_test_acc_mean") for c in line)])
        if any(c is not None and c.published is not None for c in line):
            published = ["" if c is None or c.published is None else f"{c.published:.2f}" for c in line]
            table.append(["  published", *published])
    return table


def agreement_table(cells: Sequence[Cell]) -> Table:
    """Ours less the published accuracy in points; agreeing is within a point, or within our 95 % interval if wider."""
    compared = [c for c in cells if c.published is not None and c.folders]
    rows, columns = list(dict.fromkeys(c.row for c in compared)), list(dict.fromkeys(c.column for c in compared))
    by_position = {(c.row, c.column): _difference(c) for c in compared}
    lines = [[column, *(by_position.get((row, column), "") for row in rows)] for column in columns]
    return [["ours less published, points", *rows], *lines]


def _difference(cell: Cell) -> str:
    mean, width = interval([100 * value for value in cell.values("personal_test_acc_mean")])
    difference = mean - (cell.published or 0.0)
    return f"{difference:+.1f}" + (" agrees" if abs(difference) <= max(1.0, width or 0.0) else "")


def cost_table(cells: Sequence[Cell]) -> Table:
    """Everything about each row × column, a line each."""
    header = ["row", "column", "personal, %", "published, %", "token, %", "gradients per client", "MB on the air"]
    header += ["simulated h", "host s", "published s", "late: given, %", "late: at the end, %", "seeds", "tuned"]
    lines = [_cost_line(cell) for cell in cells]
    used = [i for i in range(len(header)) if any(line[i] for line in lines)]
    return [[line[i] for i in used] for line in [header, *lines]]


def _cost_line(cell: Cell) -> list[str]:
    published = "" if cell.published is None else f"{cell.published:.2f}"
    published_s = "" if cell.published_s is None else f"{cell.published_s:g}"
    seeds = f"{len(cell.folders)}" if len(cell.folders) == cell.seeds else f"{len(cell.folders)} of {cell.seeds}"
    line = [cell.row, cell.column, _accuracy(cell, "personal_test_acc_mean"), published]
    if not cell.folders:
        return [*line, "", "", "", "", "", published_s, "", "", seeds, cell.chosen]
    alone = all(s["algorithm"] == "local" for s in cell.summaries)
    gradients = np.divide(cell.values("gradient_steps"), cell.values("clients"))
    sent = [sum(s.get(name) or 0 for name in SENT) for s in cell.summaries]
    return [
        *line,
        "–" if alone else _accuracy(cell, "token_test_acc"),
        f"{np.mean(gradients):.0f}",
        _digits(float(np.mean(sent)) / 1e6),
        _digits(float(np.mean(cell.values("sim_time_s"))) / 3600),
        _digits(float(np.mean(cell.values("host_time_s")))),
        published_s,
        *(_accuracy(cell, name) if _known(cell, name) else "" for name in LATE),
        seeds,
        cell.chosen,
    ]


def _digits(value: float) -> str:
    """Three digits, however small; whole numbers in full."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _known(cell: Cell, name: str) -> bool:
    return all(s.get(name) is not None for s in cell.summaries)


def _accuracy(cell: Cell, name: str) -> str:
    """Mean ± 95 % interval in %; says where a run diverged, and where one seed gives no interval."""
    if not cell.folders:
        return "not run"
    mean, width = interval([100 * value for value in cell.values(name)])
    text = f"{mean:.2f}" + ("" if width is None else f" ± {width:.2f}")
    diverged = sum(s["stopped_by"] == "diverged" for s in cell.summaries)
    notes = (["1 seed"] if width is None else []) + ([f"{diverged} diverged"] if diverged else [])
    return f"{text} ({', '.join(notes)})" if notes else text


def as_text(table: Table) -> str:
    """For a terminal: columns aligned, two spaces apart."""
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    padded = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in table]
    return "\n".join([padded[0], "-" * len(padded[0]), *padded[1:]])


def as_markdown(table: Table) -> str:
    lines = ["| " + " | ".join(text.strip() for text in line) + " |" for line in table]
    return "\n".join([lines[0], "|---" * len(table[0]) + "|", *lines[1:]])


def report(title: str, text: str, cells: Sequence[Cell], figures: Sequence[str], why: str = "") -> str:
    """The comparison as a Markdown page; `why` says why it differs from what is published."""
    legend = "Mean over seeds ± 95 % interval (Student's t); *personal* is the model each client holds at the end."
    pictures = [f"![{Path(figure).stem}]({figure})" for figure in figures]
    parts = [f"# {title}", text.strip(), as_markdown(accuracy_table(cells)), legend]
    agreement = agreement_table(cells)
    if len(agreement) > 1:
        rule = (
            "A figure agrees if it is within a point of the published one, or within its own interval if that is wider."
        )
        parts += ["## Where they agree, and where not", as_markdown(agreement), rule, why.strip()]
    return "\n\n".join(part for part in [*parts, *pictures, as_markdown(cost_table(cells))] if part) + "\n"


# --- curves -------------------------------------------------------------------------------------------------


def draw_curves(cells: Sequence[Cell], against: str) -> Figure:
    """Accuracy against "visits" or "gradients" per client, mean and range over seeds.

    A panel per row, a colour per column; personal models solid, the token dashed.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    colours = dict(zip(dict.fromkeys(c.column for c in cells), itertools.cycle(COLOURS), strict=False))
    drawn = [cell for cell in cells if cell.folders]
    rows, columns = list(dict.fromkeys(c.row for c in drawn)), list(dict.fromkeys(c.column for c in drawn))
    across = min(3, len(rows))
    down = math.ceil(len(rows) / across)
    figure = Figure(figsize=(4.6 * across + 1.6, 3.4 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for row, axes in zip(rows, panels, strict=False):
        for cell in drawn:
            if cell.row == row:
                _draw_cell(cell, axes, against, colours[cell.column])
        _set_axes(axes, row, against)
    for axes in panels[len(rows) :]:
        axes.set_axis_off()
    lines = [Line2D([], [], color=colours[column], label=column) for column in columns]
    lines += [Line2D([], [], color="grey", label="personal"), Line2D([], [], color="grey", ls="--", label="token")]
    figure.legend(handles=lines, loc="outside right upper", fontsize=8, frameon=False)
    return figure


def _set_axes(axes: Axes, title: str, against: str) -> None:
    """Accuracies on a logit scale, so that 98 and 99 % are as far apart as 50 and 67; visits on a log scale."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_yscale("logit")
    axes.yaxis.set_major_locator(FixedLocator([0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    if against == "visits":
        axes.set_xscale("log")
    axes.set(title=title, ylabel="test accuracy (%)", xlabel=AXES[against])
    axes.grid(alpha=0.3)


def _draw_cell(cell: Cell, axes: Axes, against: str, colour: str) -> None:
    runs = [_curves(folder, summary, against) for folder, summary in zip(cell.folders, cell.summaries, strict=True)]
    last = max(run[0][-1] for run in runs)
    x = np.geomspace(1, max(1, last), 200) if against == "visits" else np.linspace(0, last, 200)
    personal = np.stack([np.interp(x, run[0], run[1]) for run in runs]).clip(*DRAWN)
    axes.plot(x, personal.mean(axis=0), color=colour, linewidth=1.3)
    if len(runs) > 1:
        axes.fill_between(x, personal.min(axis=0), personal.max(axis=0), color=colour, alpha=0.15, linewidth=0)
    if cell.summaries[0]["algorithm"] != "local":
        token = np.stack([np.interp(x, run[2], run[3]) for run in runs]).clip(*DRAWN)
        axes.plot(x, token.mean(axis=0), color=colour, linewidth=0.9, linestyle="--")


def _curves(folder: Path, summary: dict[str, Any], against: str) -> tuple[FloatArray, ...]:
    """x and personal accuracy of a run, then x and token accuracy where it was looked at."""
    wanted = ["visit", "gradient_steps", "personal_test_acc_mean", "token_test_acc"]
    contacts = read_table(folder, "contacts").select(wanted).to_pandas()
    x = contacts["visit"] if against == "visits" else contacts["gradient_steps"].cumsum() / summary["clients"]
    start, found = summary["start_personal_test_acc_mean"], []
    for column in wanted[-2:]:
        known = contacts[column].notna()
        found += [np.append(0.0, x[known].to_numpy(np.float64)), np.append(start, contacts[column][known])]
    return tuple(found)
