"""Figures of movement traces and their contacts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedmule.analysis.plots.maps import draw_legs, draw_terrain
from fedmule.analysis.plots.style import BLUE, GREEN, ORANGE, legend, picture
from fedmule.mobility.models.movement import Waypoints
from fedmule.mobility.traces.contacts import Contacts
from fedmule.mobility.traces.statistics import contact_times, degrees, inter_contact_times
from fedmule.mobility.traces.trace import FloatArray, Trace, trace_of

if TYPE_CHECKING:
    from fedmule.simulator.scenario import Scenario


def draw_trace(trace: Trace, title: str = "") -> Figure:
    """Draw the tracks on a map that starts at (0, 0), like a terrain, beside a histogram of speeds."""
    figure = picture(11.0, 5.2)
    left, right = figure.subplots(1, 2, width_ratios=[1.2, 1.0])
    draw_tracks(trace, left)
    legs = trace.legs
    moving = legs.speed_mps > 0
    edges = _speed_edges(legs.speed_mps)
    right.hist(legs.speed_mps[moving], bins=edges, weights=legs.seconds[moving] / 3600, color=BLUE)
    right.set(xlabel="speed (m/s)", ylabel="node-hours in motion")
    right.grid(alpha=0.3)
    figure.suptitle(title, fontsize=10)
    return figure


def _speed_edges(speed_mps: FloatArray) -> FloatArray:
    """Edges of 40 bins from 0 to the highest speed, valid even if all speeds differ only by rounding."""
    return np.linspace(0.0, max(1.02 * float(speed_mps.max(initial=0.0)), 0.1), 41)


def draw_tracks(trace: Trace, axes: Axes) -> None:
    """Draw the tracks and the first positions; only some of the nodes if the trace is large."""
    every = draw_legs(trace, axes, BLUE, 0.4)
    first = trace.first[:-1]
    note = "first positions" if every == 1 else f"first positions (tracks of one node in {every})"
    axes.scatter(trace.x[first], trace.y[first], s=8, color=ORANGE, linewidths=0, zorder=3, label=note)
    low_x, low_y, high_x, high_y = trace.bounds
    pad = 0.02 * max(high_x, high_y, 1.0)
    axes.set(xlim=(min(low_x, 0) - pad, max(high_x, 0) + pad), ylim=(min(low_y, 0) - pad, max(high_y, 0) + pad))
    axes.set(xlabel="x (m)", ylabel="y (m)")
    axes.set_aspect("equal")
    legend(axes)


def movement_of(scenario: Scenario, until_s: float, plugins: dict[str, Any] | None = None) -> Trace:
    """Trace of the clients of a scenario up to a time, without vehicle or learning."""
    from fedmule.simulator.streams import Streams
    from fedmule.simulator.world import build_world

    world = build_world(scenario, Streams(scenario.seed), plugins or {})
    if not world.placed:
        raise ValueError(f"{scenario.name}: nobody has a position: clients.mobility is a contact list")
    trajectories = world.positions.trajectories
    rows: list[Waypoints] = []
    trajectories.record(rows.append)
    trajectories.finish(until_s)
    passed = Waypoints.join(rows)
    names = [str(i) for i in range(len(trajectories))]
    return trace_of(names, passed.client, passed.t, passed.xy[:, 0], passed.xy[:, 1])


def draw_movement(scenario: Scenario, until_s: float, plugins: dict[str, Any] | None = None) -> Figure:
    """Draw the tracks of a scenario's clients up to a time, on its terrain."""
    width, height = scenario.terrain.size_m
    figure = picture(6.0, 6.0 * height / width + 0.7)
    axes = figure.subplots()
    draw_terrain(scenario.terrain.model_dump(), axes)
    draw_tracks(movement_of(scenario, until_s, plugins), axes)
    axes.set(xlim=(0, width), ylim=(0, height))
    return figure


def draw_contacts(trace: Trace, contacts: Contacts, until_s: float = np.inf, title: str = "") -> Figure:
    """Draw the distributions of contact and inter-contact times, and the number of neighbours over time."""
    figure = picture(11.0, 4.6)
    left, right = figure.subplots(1, 2)
    _exceeding(left, contact_times(contacts), "contact times", ORANGE)
    _exceeding(left, inter_contact_times(contacts), "inter-contact times", BLUE)
    left.set(xscale="log", yscale="log", xlabel="time (s)", ylabel="fraction that lasts longer")
    left.grid(alpha=0.3)
    left.legend(frameon=False, fontsize=8)
    degree = degrees(trace, contacts, until_s)
    right.plot((degree.t - trace.begin_s) / 60, degree.mean, color=GREEN)
    right.set(xlabel="time (min)", ylabel="neighbours in contact, mean over nodes")
    right.set_ylim(bottom=0)
    right.grid(alpha=0.3)
    figure.suptitle(title, fontsize=10)
    return figure


def _exceeding(axes: Axes, seconds: FloatArray, label: str, colour: str) -> None:
    seconds = np.sort(seconds[seconds > 0])
    if len(seconds):
        fraction = 1 - np.arange(len(seconds)) / len(seconds)
        some = np.linspace(0, len(seconds) - 1, 1000).astype(np.int64)
        kept = np.union1d(
            some, np.arange(max(0, len(seconds) - 1000), len(seconds))
        )  # all of the longest, which are rare
        axes.step(seconds[kept], fraction[kept], where="pre", color=colour, label=label)
