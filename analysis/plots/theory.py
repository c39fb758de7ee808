"""A run's walk compared with the theory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedmule.analysis.loading import Run
from fedmule.analysis.plots.style import BLUE, GREEN, GREY, ORANGE, client_axis, legend, picture
from fedmule.analysis.plots.words import plain

if TYPE_CHECKING:
    from fedmule.analysis.theory import Theory

LEAST = 1e-16  # smaller distances are rounding errors


def draw_theory(what: Run | Theory) -> Figure:
    """Draw the second modulus over snapshots, Φ against its limit, visits against π, and ages.

    Without logged graphs, and so without P(k), only the last two are drawn.
    """
    if isinstance(what, Run):
        from fedmule.analysis.theory import theory

        found = theory(what)
    else:
        found = what
    rows = 1 if found.walk is None else 2
    figure = picture(11.0, 4.0 * rows)
    panels = figure.subplots(rows, 2, squeeze=False)
    if found.walk is not None:
        _spectrum(found, panels[0, 0])
        _products(found, panels[0, 1])
    _visits(found, panels[-1, 0])
    _ages(found, panels[-1, 1])
    for axes in panels.ravel():
        axes.grid(alpha=0.3)
    figure.suptitle(f"{plain(found.name)}: walk {found.rule}, jump {found.jump:g}, {found.n} clients", fontsize=10)
    return figure


def _spectrum(found: Theory, axes: Axes) -> None:
    table = found.snapshots
    axes.plot(table["visit"], table["second_modulus"], color=BLUE, marker=".", label="second-largest modulus")
    axes.plot(table["visit"], table["sigma"], color=ORANGE, marker=".", linewidth=0.8, label="σ(P)")
    axes.plot(table["visit"], table["spectral_limit"], color=GREY, linestyle="--", label=r"$1 - 1/m^{2/3}$")
    axes.set(xlabel="visit", ylabel="per move (1: never forgets its start)")
    axes.set_ylim(0, max(1.05, 1.05 * float(table["sigma"].max())))
    legend(axes, 3)


def _products(found: Theory, axes: Axes) -> None:
    walk = found.walk
    assert walk is not None
    phi, moves = walk.products, np.arange(1, len(walk.products.apart) + 1)
    axes.plot(moves, np.maximum(phi.apart, LEAST), color=BLUE, label="rows of Φ from their mean")
    axes.plot(moves, np.maximum(phi.uneven, LEAST), color=GREEN, label="largest |Φ − 1/n|")
    label = "the paper's lemma" if walk.lemma_holds else "the paper's lemma (does not apply)"
    axes.plot(moves, np.minimum(walk.lemma, 2.0), color=GREY, linestyle="--", label=label)
    if found.jump > 0:
        axes.plot(moves, np.maximum(walk.jump_bound, LEAST), color=ORANGE, linestyle=":", label="(1 − jump)^k")
    axes.set(xlabel="moves k", ylabel="distance", yscale="log", ylim=(LEAST / 2, 4))
    legend(axes, 2)


def _visits(found: Theory, axes: Axes) -> None:
    clients = found.clients
    axes.bar(clients["client"], clients["visits"], color=GREY, label="visits")
    if found.walk is not None:
        expected = found.visits * clients["stationary"]
        axes.scatter(clients["client"], expected, color=ORANGE, s=14, zorder=4, label="π × all visits")
        if found.walk.chance is not None:
            low, high = found.walk.chance.visits
            axes.vlines(clients["client"], low, high, color=BLUE, linewidth=1.0, zorder=3, label="95 % by chance")
    axes.set(xlabel="client", ylabel="visits")
    client_axis(axes.xaxis)
    legend(axes, 3)


def _ages(found: Theory, axes: Axes) -> None:
    axes.plot(found.ages["visit"], found.ages["oldest"], color=ORANGE, label="oldest client")
    axes.plot(found.ages["visit"], found.ages["mean"], color=BLUE, label="mean over clients")
    if found.covered_at is not None:
        axes.axvline(found.covered_at, color=GREY, linestyle="--", linewidth=0.8, label="everyone visited")
    axes.set(xlabel="visit", ylabel="visits since a client's last visit", ylim=(0, None))
    legend(axes, 3)
