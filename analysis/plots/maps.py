"""The map of a run, and the contact graph on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure

from fedmule.analysis.loading import Run, has_positions
from fedmule.analysis.plots.style import BLUE, GREEN, GREY, MANY, ORANGE, PINK, axes_for, legend, picture_of
from fedmule.mobility.traces.trace import FloatArray, Trace, positions_at, trace_of

MOST_LEGS = 40_000  # to draw
PATHS = tuple(colour for colour in MANY if colour not in (GREEN, ORANGE))  # of vehicles; those are clients, contacts


def draw_terrain(terrain: dict[str, Any], axes: Axes) -> None:
    """Draw surfaces, obstacles and jamming zones of a scenario's terrain table."""
    surfaces, obstacles, zones = terrain["surfaces"], terrain["obstacles"], terrain.get("jamming_zones", [])
    for slow, colour in ((False, "#ece6d8"), (True, "#dfe8d0")):
        alike = [surface for surface in surfaces if (surface["speed_factor"] < 1) == slow]
        _fill(axes, alike, zorder=0, color=colour)
    walls = [obstacle for obstacle in obstacles if obstacle["stops_movement"]]
    for heard, colour in ((False, "#6b6b6b"), (True, "#a8c8e8")):
        alike = [wall for wall in walls if (wall["radio_loss_db"] <= 0) == heard]
        _fill(axes, alike, zorder=1, facecolor=colour, edgecolor="none")
    leaves = [obstacle for obstacle in obstacles if not obstacle["stops_movement"]]
    _fill(axes, leaves, zorder=1, facecolor="none", edgecolor="#7a9a55", hatch="..", linewidth=0.5)
    _fill(axes, zones, zorder=1, facecolor="none", edgecolor=PINK, hatch="xx", linewidth=1.0, alpha=0.6)


def _fill(axes: Axes, parts: list[dict[str, Any]], **style: Any) -> None:
    """Draw the polygons of some parts of a terrain, all at once: a town has thousands."""
    if parts:
        axes.add_collection(PolyCollection([np.array(part["polygon"]) for part in parts], **style))


def draw_map(run: Run, axes: Axes | None = None) -> Figure:
    """Draw the terrain, the paths of vehicles and clients, the contacts, and the clients present at the end."""
    if not has_positions(run.scenario):
        raise ValueError(f"{run.folder}: has no map: its contact list has no positions")
    axes = _on_terrain(run, axes)
    clients, vehicles = _paths(run, "client"), _paths(run, "vehicle")
    draw_legs(clients, axes, GREEN, 0.18, "paths of clients")
    for i, name in enumerate(vehicles.names):
        label = "path of the vehicle" if len(vehicles) == 1 else f"vehicle {name}"
        draw_legs(vehicles, axes, PATHS[i % len(PATHS)], 0.7, label, only=i)
    stands = run.contacts[["vehicle_x_m", "vehicle_y_m"]].to_numpy(np.float64)
    _dots(axes, stands, 7, ORANGE, "contacts", 4)
    if len(clients):
        positions = np.hstack(positions_at(clients, np.array([clients.end_s])))  # nan if absent: not drawn
        _dots(axes, positions, 16, GREEN, "clients at the end", 5)
    legend(axes, 4)
    return picture_of(axes)


def draw_graph(run: Run, visit: int | None = None, axes: Axes | None = None) -> Figure:
    """Draw the contact graph, who could hear whom, at the last snapshot up to a visit (by default the last)."""
    if run.graph.empty:
        raise ValueError(f"{run.folder}: no contact graph was logged (log.graph_every)")
    logged = run.graph["visit"].unique()
    first, chosen = int(logged.min()), logged[logged <= (logged.max() if visit is None else visit)]
    if not len(chosen):
        raise ValueError(f"visit = {visit}: the first contact graph was logged at visit {first}")
    axes, visit = _on_terrain(run, axes), int(chosen.max())
    rows = run.graph[run.graph["visit"] == visit]
    now, edges = float(rows["sim_time_s"].iloc[0]), rows.loc[rows["a"] != rows["b"], ["a", "b"]].to_numpy(np.int64)
    members = np.unique(rows[["a", "b"]])
    positions = _positions(run, visit, now)
    axes.add_collection(LineCollection(list(positions[edges]), colors=BLUE, linewidths=0.7, alpha=0.6, zorder=3))
    axes.plot([], [], color=BLUE, linewidth=0.7, label=f"{len(edges)} links")
    _dots(axes, positions[members], 18, GREEN, "clients", 4)
    away = np.setdiff1d(np.arange(len(positions)), members)
    if np.isfinite(positions[away]).any():
        _dots(axes, positions[away], 18, GREY, "not reachable by the vehicle", 4)
    stood = run.visits[run.visits["visit"] == visit][["vehicle_x_m", "vehicle_y_m"]].to_numpy(np.float64)
    if np.isfinite(stood).any() and not run.track.empty:
        _dots(axes, stood, 60, ORANGE, "vehicle", 5, marker="*")
    legend(axes, 4, title=f"visit {visit}, {now / 3600:.2f} h", title_fontsize=8)
    return picture_of(axes)


def _on_terrain(run: Run, axes: Axes | None) -> Axes:
    width, height = run.scenario["terrain"]["size_m"]
    axes = axes_for(axes, 6.4, min(9.0, max(2.8, 5.7 * height / width + 0.9)))
    draw_terrain(run.scenario["terrain"], axes)
    for line in (run.scenario["vehicle"].get("roads") or {}).get("lines", []):
        axes.plot(*np.array(line).T, color="#d8d0bc", linewidth=3, zorder=0.5)
    axes.set(xlim=(0, width), ylim=(0, height), xlabel="x (m)", ylabel="y (m)")
    axes.set_aspect("equal")
    return axes


def _dots(
    axes: Axes, positions: FloatArray, size: float, colour: str, label: str, order: int, marker: str = "o"
) -> None:
    """Draw positions [k, 2] as dots; nan are not drawn."""
    x, y = positions[:, 0], positions[:, 1]
    axes.scatter(x, y, s=size, color=colour, marker=marker, zorder=order, label=label, linewidths=0)


def _paths(run: Run, node: str) -> Trace:
    """Tracks of vehicles or clients; empty if none were logged."""
    rows: pd.DataFrame = run.track[run.track["node"] == node]
    ids = rows["id"].to_numpy(np.int64)
    known, number = np.unique(ids, return_inverse=True)
    t, x, y = (rows[name].to_numpy(np.float64) for name in ("sim_time_s", "x_m", "y_m"))
    return trace_of([str(i) for i in known], number, t, x, y)


def draw_legs(paths: Trace, axes: Axes, colour: str, alpha: float, label: str = "", only: int | None = None) -> int:
    """Draw the paths of all nodes, or of one; of a large trace only every k-th node. Returns k."""
    legs = paths.legs
    moved = (legs.x != legs.to_x) | (legs.y != legs.to_y)
    every = -(-max(1, int(moved.sum())) // MOST_LEGS)
    shown = moved & (legs.node % every == 0 if only is None else legs.node == only)
    ends = np.stack([legs.x, legs.y, legs.to_x, legs.to_y], axis=1)[shown].reshape(-1, 2, 2)
    if len(ends):
        lines = LineCollection(list(ends), colors=colour, linewidths=0.6, alpha=alpha, zorder=2, label=label)
        axes.add_collection(lines)
    return every


def _positions(run: Run, visit: int, now_s: float) -> FloatArray:
    """Positions of all clients [n, 2]; if no track was logged, a layout that shows the graph well."""
    count, clients = int(run.scenario["clients"]["count"]), _paths(run, "client")
    positions = np.full((count, 2), np.nan)
    if len(clients):
        positions[[int(name) for name in clients.names]] = np.hstack(positions_at(clients, np.array([now_s])))
        return positions
    import networkx as nx

    size = np.array(run.scenario["terrain"]["size_m"])
    drawn = nx.spring_layout(run.graph_at(visit), seed=0)
    return np.array([(drawn[i] + 1) / 2 * 0.9 * size + 0.05 * size for i in range(count)])
