"""Visits per client, and the time since each client's last visit."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedmule.analysis.loading import Run
from fedmule.analysis.plots.style import GREY, MANY, MAP, ORANGE, axes_for, client_axis, legend, picture_of
from fedmule.analysis.plots.words import axis_of, scale_of
from fedmule.mobility.traces.trace import FloatArray, IntArray

MOST_BARS = 200
MOST_ROWS, COLUMNS = 1000, 400  # of the image of ages


def meetings(run: Run, of: str = "visits") -> tuple[IntArray, FloatArray, IntArray]:
    """Client, time (s) and vehicle of every visit, or of every completed exchange."""
    if of == "visits":
        rows = run.visits.dropna(subset=["client"])
        client = rows["client"]
    elif of == "exchanges":
        rows = run.contacts.explode("delivered_ids").dropna(subset=["delivered_ids"])
        client = rows["delivered_ids"]
    else:
        raise ValueError(f'of = {of!r}: must be "visits" or "exchanges"')
    vehicle = rows["vehicle"].fillna(0).to_numpy(np.int64)
    return client.to_numpy(np.int64), rows["sim_time_s"].to_numpy(np.float64), vehicle


def draw_visits(run: Run, axes: Axes | None = None) -> Figure:
    """Draw the number of visits to each client, stacked by vehicle, and of its completed exchanges."""
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
        axes.scatter(np.arange(n), exchanges, s=12, color=ORANGE, linewidths=0, zorder=3, label="exchanges completed")
    axes.set(xlabel="client", ylabel="count", xlim=(-0.5, n - 0.5), ylim=(0, None))
    axes.grid(alpha=0.3, axis="y")
    client_axis(axes.xaxis)
    client_axis(axes.yaxis)
    legend(axes, 4)
    return picture_of(axes)


def _bars(axes: Axes, below: FloatArray, above: FloatArray, **style: Any) -> None:
    """Draw a bar per client; a single outline where there are too many to distinguish."""
    if len(above) <= MOST_BARS:
        axes.bar(np.arange(len(above)), above - below, bottom=below, **style)
    else:
        axes.stairs(above, np.arange(len(above) + 1) - 0.5, baseline=below, fill=True, **style)


def ages(run: Run, times_s: FloatArray, of: str = "visits") -> FloatArray:
    """Seconds since each client's last visit (or exchange) at the given times [m]: [n, m], nan before the first."""
    client, at, _ = meetings(run, of)
    found = np.full((int(run.scenario["clients"]["count"]), len(times_s)), np.nan)
    for i in np.unique(client):
        own = np.sort(at[client == i])
        last = np.searchsorted(own, times_s, side="right") - 1
        found[i] = np.where(last >= 0, times_s - own[np.maximum(last, 0)], np.nan)
    return found


def draw_ages(run: Run, of: str = "visits", axes: Axes | None = None) -> Figure:
    """Draw the time since each client's last visit (or exchange) over simulated time; grey before the first."""
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
        extent=(0.0, times[-1] / scale_of("sim_time_s").size, -0.5, len(table) - 0.5),
    )
    one = "visit" if of == "visits" else "exchange"
    picture_of(axes).colorbar(drawn, ax=axes, label=f"time since last {one} (min)", pad=0.01)
    axes.set(xlabel=axis_of("sim_time_s"), ylabel="client" if every == 1 else f"client (one in {every})")
    client_axis(axes.yaxis)
    return picture_of(axes)
