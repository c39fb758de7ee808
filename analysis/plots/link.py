"""A radio's signal, errors and goodput over distance."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from fedmule.analysis.plots.style import BLUE, GREEN, GREY, ORANGE, picture
from fedmule.radio.budget import Budget


def draw_link(budget: Budget, title: str, level: str = "dBm") -> Figure:
    """Draw received power and SNR, packet error rate and goodput over distance; `level` is the unit of power."""
    figure = picture(6.4, 7.2)
    power, errors, speed = figure.subplots(3, 1, sharex=True)
    if np.isfinite(budget.received_dbm).any():
        power.plot(budget.distance_m, budget.received_dbm, color=BLUE, label=f"received ({level})")
        power.plot(budget.distance_m, budget.snr_db, color=ORANGE, label="SNR (dB)")
        power.legend(fontsize=8, frameon=False)
    errors.plot(budget.distance_m, budget.per, color=ORANGE)
    linked = budget.goodput_bps > 0
    speed.plot(budget.distance_m[linked], budget.rate_bps[linked] / 1e3, color=GREY, label="rate on the air")
    speed.plot(budget.distance_m[linked], budget.goodput_bps[linked] / 1e3, color=GREEN, label="goodput")
    speed.legend(fontsize=8, frameon=False)
    power.set(ylabel=f"{level}, dB", title=title)
    errors.set(ylabel="packet error rate", ylim=(-0.03, 1.03))
    speed.set(ylabel="kb/s", xlabel="distance (m)", xscale="log", yscale="log")
    for axes in (power, errors, speed):
        axes.grid(alpha=0.3)
    return figure
