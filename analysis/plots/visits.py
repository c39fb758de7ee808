"""Whom the vehicle came to, and how long ago."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedmule.analysis.loading import Run
from fedmule.analysis.plots.style import GREY, MANY, MAP, ORANGE, axes_for, client_axis, legend, picture_of
from fedmule.analysis.plots.words import METRICS
from fedmule.mobility.traces.trace import FloatArray, IntArray

MOST_BARS = 200
MOST_ROWS, COLUMNS = 1000, 400  # of the picture of ages


def meetings(run: Run, of: str = "visits") -> tuple[IntArray, FloatArray, IntArray]:
    """Of every visit, or every exchange that got through: which client, when (s), by which vehicle."""
    if of == "visits":
        rows = run.contacts.dropna(subset=["client"])
        client = rows["client"]
    elif of == "exchanges":
        rows = run.contacts.explode("delivered_ids").dropna(subset=["delivered_ids"])
        client = rows["delivered_ids"]
    else:
        raise ValueError(f'of = {of!r}: must be "visits" or "exchanges"')
    vehicle = rows["vehicle"].fillna(0).to_numpy(np.int64)
    return client.to_numpy(np.int64), rows["sim_time_s"].to_numpy(np.float64), vehicle


def draw_visits(run: Run, axes: Axes | None = None) -> Figure:
    """Times the vehicle came to each client, stacked by vehicle, and exchanges that got through."""
    axes, n = axes_for(axes, 8.0, 3.6), int(run.scenario["clients"]["count"])
    client, _, vehicle = meetings(run)
    below = np.zeros(n)
    for i, which in enumerate(np.unique(vehicle)):
        name = "visits" if len(np.unique(vehicle)) == 1 else f"visits of vehicle {which}"
        colour = GREY if name == "visits" else MANY[i % len(MANY)]
        above = below + np.bincount(client[vehicle == which], minlength=n)
        _bars(axes, below, above, color=colour, alpha=0.8, label=name)
        below = above
    exchanges = np.bincount(meetings(run, "exchanges")[0], minlength=n)
    if exchanges.any():
        axes.scatter(np.arange(n), exchanges, s=12, color=ORANGE, linewidths=0, zorder=3, label="exchanges delivered")
    axes.set(xlabel="client", ylabel="count", xlim=(-0.5, n - 0.5), ylim=(0, None))
    axes.grid(alpha=0.3, axis="y")
    client_axis(axes.xaxis)
    client_axis(axes.yaxis)
    legend(axes, 4)
    return picture_of(axes)


def _bars(axes: Axes, below: FloatArray, above: FloatArray, **style: Any) -> None:
    """A bar per client; one outline of all where there are too many to tell apart."""
    if len(above) <= MOST_BARS:
        axes.bar(np.arange(len(above)), above - below, bottom=below, **style)
    else:
        axes.stairs(above, np.arange(len(above) + 1) - 0.5, baseline=below, fill=True, **style)


def ages(run: Run, times_s: FloatArray, of: str = "visits") -> FloatArray:
    """Seconds since each client's [n] last visit (or exchange) at times [m]; nan while there was none."""
    client, at, _ = meetings(run, of)
    found = np.full((int(run.scenario["clients"]["count"]), len(times_s)), np.nan)
    for i in np.unique(client):
        own = np.sort(at[client == i])
        last = np.searchsorted(own, times_s, side="right") - 1
        found[i] = np.where(last >= 0, times_s - own[np.maximum(last, 0)], np.nan)
    return found


def draw_ages(run: Run, of: str = "visits", axes: Axes | None = None) -> Figure:
    """How long ago each client's last visit (or exchange) was, over simulated time; grey while it had none."""
    axes = axes_for(axes, 8.0, 4.2)
    end_s = float(run.contacts["sim_time_s"].max()) if len(run.contacts) else 0.0
    times = np.linspace(0.0, max(end_s, 1.0), COLUMNS)
    table = ages(run, times, of)
    every = -(-len(table) // MOST_ROWS)
    axes.set_facecolor("#dddddd")
    drawn = axes.imshow(
        table[::every] / 60,
        aspect="auto",
        origin="lower",
        interpolation="nearest",
        cmap=MAP,
        vmin=0.0,
        extent=(0.0, times[-1] / 3600, -0.5, len(table) - 0.5),
    )
    one = "visit" if of == "visits" else "exchange"
    picture_of(axes).colorbar(drawn, ax=axes, label=f"since its last {one} (min)", pad=0.01)
    axes.set(xlabel=METRICS["sim_time_s"][1], ylabel="client" if every == 1 else f"client (one in {every})")
    client_axis(axes.yaxis)
    return picture_of(axes)
