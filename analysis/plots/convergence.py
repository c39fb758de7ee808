"""Convergence of the algorithm: violation of its constraint, Lagrangian, steps of the token."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedmule.analysis.loading import Run
from fedmule.analysis.plots.style import BLUE, GREEN, ORANGE, legend, picture
from fedmule.simulator.runs.columns import CONTACTS

# Label of each panel, and the columns of contacts that it shows.
PANELS: dict[str, tuple[str, ...]] = {
    "violation of |x − y| ≤ ε": ("violation_max", "violation_rms"),
    "$L_β$, $M_β$, loss": ("lagrangian", "lyapunov", "train_loss"),
    f"{CONTACTS['token_step_norm'].axis}, |Δy|": ("token_step_norm",),
    CONTACTS["dual_norm"].axis: ("dual_norm",),
}
WIDE = 50.0  # ratio of the largest to the smallest value from which the axis is logarithmic
COLOURS = (ORANGE, BLUE, GREEN)


def has_constraint(run: Run) -> bool:
    """Whether the run's algorithm logged a constraint, as rwsadmm does."""
    return bool(run.contacts["lagrangian"].notna().any())


def draw_convergence(run: Run) -> Figure:
    """Draw violation, Lagrangian and Lyapunov function, steps of the token and duals over contacts, where logged."""
    figure = picture(11.0, 6.4)
    for axes, (label, columns) in zip(figure.subplots(2, 2).ravel(), PANELS.items(), strict=True):
        _panel(run, axes, label, columns)
    return figure


def _panel(run: Run, axes: Axes, label: str, columns: tuple[str, ...]) -> None:
    low, high = math.inf, 0.0
    for column, colour in zip(columns, COLOURS, strict=False):
        known = run.contacts.dropna(subset=[column])
        if known.empty:
            continue
        marker, width = ("", 0.6) if len(known) > 100 else (".", 1.2)
        name = CONTACTS[column].words if len(columns) > 1 else None
        axes.plot(known["contact"], known[column], color=colour, label=name, marker=marker, linewidth=width)
        low, high = min(low, float(known[column].min())), max(high, float(known[column].max()))
    if low > 0 and high > WIDE * low:
        axes.set_yscale("log")
    elif low >= 0:
        axes.set_ylim(bottom=0)
    axes.set(xlabel="contact", ylabel=label)
    axes.grid(alpha=0.3)
    legend(axes)
