"""Pictures of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from analysis.loading import Run
from radio.link import Budget

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colour-blind safe (Okabe and Ito).
BLUE, ORANGE, GREEN, GREY, PURPLE = "#0072B2", "#D55E00", "#009E73", "#8c8c8c", "#CC79A7"


def draw_run(run: Run) -> Figure:
    """The map beside the accuracy over simulated time."""
    from matplotlib.figure import Figure

    width, height = run.scenario["terrain"]["size_m"]
    figure = Figure(figsize=(5.2 * width / height + 5.0, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.05 * width / height, 1.0])
    draw_map(run, left)
    draw_accuracy(run, right)
    return figure


def draw_terrain(terrain: dict[str, Any], axes: Axes) -> None:
    """Surfaces, obstacles and jamming zones of a scenario's terrain table."""
    for surface in terrain["surfaces"]:
        slow = surface["speed_factor"] < 1
        axes.fill(*np.array(surface["polygon"]).T, color="#dfe8d0" if slow else "#ece6d8", zorder=0)
    for obstacle in terrain["obstacles"]:
        if not obstacle["stops_movement"]:
            style: dict[str, Any] = {
                "facecolor": "none",
                "edgecolor": "#7a9a55",
                "hatch": "..",
                "linewidth": 0.5,
            }
        elif obstacle["radio_loss_db"] > 0:
            style = {"facecolor": "#6b6b6b", "edgecolor": "none"}
        else:
            style = {"facecolor": "#a8c8e8", "edgecolor": "none"}
        axes.fill(*np.array(obstacle["polygon"]).T, zorder=1, **style)
    for zone in terrain.get("jamming_zones", []):
        corners = np.array(zone["polygon"]).T
        axes.fill(*corners, facecolor="none", edgecolor=PURPLE, hatch="xx", linewidth=1.0, alpha=0.6, zorder=1)


def draw_map(run: Run, axes: Axes) -> None:
    """Terrain, the way the vehicle drove, where those clients were that were there at the end, and the contacts."""
    terrain = run.scenario["terrain"]
    draw_terrain(terrain, axes)
    for line in run.scenario["vehicle"].get("roads", {}).get("lines", []):
        axes.plot(*np.array(line).T, color="#d8d0bc", linewidth=3, zorder=0.5)
    vehicle = run.track[run.track["node"] == "vehicle"]
    axes.plot(vehicle["x_m"], vehicle["y_m"], color=BLUE, linewidth=0.6, alpha=0.6, zorder=2, label="way driven")
    contacts = run.contacts
    axes.scatter(
        contacts["vehicle_x_m"],
        contacts["vehicle_y_m"],
        s=5,
        color=ORANGE,
        zorder=3,
        label="contacts",
        linewidths=0,
    )
    last = run.track[run.track["node"] == "client"].groupby("id").tail(1)  # nan where one is not there: not drawn
    axes.scatter(last["x_m"], last["y_m"], s=14, color=GREEN, zorder=4, label="clients at the end", linewidths=0)
    axes.set(xlim=(0, terrain["size_m"][0]), ylim=(0, terrain["size_m"][1]), xlabel="x (m)", ylabel="y (m)")
    axes.set_aspect("equal")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=8, frameon=False)


def draw_accuracy(run: Run, axes: Axes) -> None:
    """Test accuracy of personal models and token over simulated time."""
    contacts = run.contacts
    hours = contacts["sim_time_s"] / 3600
    axes.plot(
        hours,
        100 * contacts["personal_test_acc_mean"],
        color=GREEN,
        label="personal models",
    )
    looked = contacts["token_test_acc"].notna()
    axes.plot(
        hours[looked],
        100 * contacts["token_test_acc"][looked],
        color=BLUE,
        marker=".",
        label="token",
    )
    axes.set(xlabel="simulated time (h)", ylabel="test accuracy, mean over clients (%)", ylim=(0, 100))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize=8, frameon=False)


def draw_labels(counts: NDArray[np.int64], title: str) -> Figure:
    """How many samples of each label [classes] each client [n] has: a disc's area is the number."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    clients, classes = counts.shape
    figure = Figure(figsize=(min(14.0, 2.0 + 0.32 * clients), 1.6 + 0.32 * classes), layout="constrained")
    axes = figure.subplots()
    client, label = np.nonzero(counts)
    axes.scatter(client, label, s=220 * counts[client, label] / counts.max(), color=BLUE, linewidths=0)
    axes.set(xlabel="client", ylabel="label", xlim=(-1, clients), ylim=(-1, classes), yticks=range(classes))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(f"{title}: samples per client and label, largest {counts.max()}", fontsize=10)
    axes.grid(alpha=0.3)
    return figure


def draw_link(budget: Budget, title: str, level: str = "dBm") -> Figure:
    """Received power and SNR, packet error rate, and goodput over distance."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 7.2), layout="constrained")
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
