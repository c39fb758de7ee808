"""A moment of a run as a matplotlib figure: the map beside the accuracies; what moves can be drawn by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize, to_rgba_array
from matplotlib.lines import Line2D
from matplotlib.patches import Circle
from matplotlib.path import Path
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from matplotlib.transforms import Affine2D

from fedmule.analysis.loading import Run, has_positions
from fedmule.analysis.plots.curves import MODELS
from fedmule.analysis.plots.maps import draw_terrain
from fedmule.analysis.plots.style import BLACK, BLUE, GREEN, GREY, ORANGE, Picture
from fedmule.analysis.plots.words import plain
from fedmule.analysis.replay.ground import ground_of
from fedmule.analysis.replay.groups import groups_of
from fedmule.analysis.replay.moments import FloatArray, IntArray, Moments, accuracy_range
from fedmule.analysis.replay.run_page import facts_of, range_of, start_of

MARKERS = ("o", "s", "D", "^", "v", "p", "h", "*")  # of groups of clients
ARROW = Path([(0.6, 0.0), (-0.4, -0.4), (-0.2, 0.0), (-0.4, 0.4), (0.6, 0.0)])
VEHICLES = (BLUE, "#7b3fa0", "#a6761d", BLACK)
COLOURS = "viridis"  # of accuracies, as on the page
WIDTH_IN, DPI = 10.0, 100
TOP_IN, GAP_IN = 0.5, 0.15
MAP_IN, TALL_IN = 6.4, 4.4  # width of the map, and the least height of what is beside it
RIGHT_IN, SIDE_IN, CHART_IN = 7.1, 2.75, 1.75
UNKNOWN = "#c9c6bd"
HALO: dict[str, Any] = {"path_effects": [withStroke(linewidth=2, foreground="white")], "zorder": 8}
DASHED = (0, (3, 3))
LINE = {"alone_test_acc_mean": ":", "token_test_acc": "--"}  # others are solid
TITLE = {"personal_test_acc_mean": "personal", "token_test_acc": "token", "alone_test_acc_mean": "alone"}


class Scene:
    """A figure that shows a run at any of its times."""

    def __init__(self, run: Run, client: int | None = None) -> None:
        self.moments = Moments(run)
        self.run, self.client = self.moments.run, client
        width_m, height_m = self.moments.size_m
        self.tall_in = round(min(MAP_IN, max(TALL_IN, MAP_IN * height_m / width_m)), 2)
        self.figure = Picture(figsize=(WIDTH_IN, self.tall_in + TOP_IN + GAP_IN))
        self.map = self._axes(GAP_IN, 0.0, MAP_IN, self.tall_in)
        self.chart = self._axes(RIGHT_IN, 0.0, SIDE_IN, CHART_IN)
        self.moving: list[Artist] = []
        self._draw_ground(width_m, height_m)
        self._draw_curves()
        self._add_clients()
        self._add_vehicles()
        title = f"{run.manifest['name']}: {' · '.join(facts_of(run))}"
        height_in = self.figure.get_size_inches()[1]
        self.figure.text(GAP_IN / WIDTH_IN, 1 - 0.18 / height_in, plain(title), fontsize=8, color="#5d6770")
        self.clock = self.map.set_title("", loc="left", fontsize=10, fontweight="bold")
        self.moving.append(self.clock)
        self._legend()

    def _axes(self, left_in: float, down_in: float, width_in: float, height_in: float) -> Axes:
        """Axes so far from the left edge and from the line below the title, in inches."""
        width, height = self.figure.get_size_inches()
        bottom_in = height - TOP_IN - down_in - height_in
        box = (left_in / width, bottom_in / height, width_in / width, height_in / height)
        return self.figure.add_axes(box)

    # --- what stays -------------------------------------------------------------------------------------------

    def _draw_ground(self, width_m: float, height_m: float) -> None:
        axes = self.map
        axes.set(xlim=(0, width_m), ylim=(0, height_m), xticks=[], yticks=[], facecolor="#f7f3e9")
        axes.set_aspect("equal")
        for spine in axes.spines.values():
            spine.set_color("#d6d0c1")
        if not has_positions(self.run.scenario):
            axes.set_xlabel("a diagram: the contact list has no positions", fontsize=8)
            return
        draw_terrain(self.run.scenario["terrain"], axes)
        ground = ground_of(self.run.scenario)
        for line in ground["roads"]:
            axes.plot(*np.array(line).T, color="#e0d3b6", linewidth=2.5, zorder=0.5, solid_capstyle="round")
        named = {(shape["name"], *shape["middle"]): shape for shape in ground["shapes"] if shape["name"]}
        for (name, x, y), shape in named.items():
            wide = float(np.ptp(np.array(shape["rings"][0])[:, 0])) / width_m
            if len(name) * 0.0075 < 1.3 * wide:
                ink, edge = ("white", "#6b6b6b") if shape["kind"] == "wall" else ("#3d454c", "#f7f3e9")
                halo = [withStroke(linewidth=1.5, foreground=edge)]
                style: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 1.5, "path_effects": halo}
                axes.text(x, y, plain(name), fontsize=7, color=ink, **style)

    def _draw_curves(self) -> None:
        axes, contacts = self.chart, self.moments.contacts
        start = start_of(self.run.clients)
        self.curves: list[tuple[FloatArray, FloatArray, Line2D, Line2D, str]] = []
        times = np.append(0.0, contacts["sim_time_s"].to_numpy(np.float64)) / 3600
        for metric, (_, colour) in MODELS.items():
            name, first = TITLE[metric], start[TITLE[metric]]
            values = np.append(np.nan if first is None else first, contacts.get(metric, np.full(len(contacts), np.nan)))
            known = np.isfinite(values.astype(np.float64))
            x, y = times[known], 100 * values[known].astype(np.float64)
            style: dict[str, Any] = {"color": colour, "linestyle": LINE.get(metric, "-")}
            axes.plot(x, y, alpha=0.3, **style)
            axes.plot([], [], label=name, **style)
            (past,) = axes.plot([], [], **style)
            (dot,) = axes.plot([], [], marker="o", markersize=5, markeredgecolor="white", **style)
            self.curves.append((x, y, past, dot, name))
            self.moving += [past, dot]
        axes.legend(loc="lower right", fontsize=7, framealpha=0.8, borderpad=0.3)
        self.cursor = axes.axvline(0.0, color=BLACK, linewidth=0.8)
        self.moving.append(self.cursor)
        end_h = max(self.moments.end_s, 1.0) / 3600
        axes.set(xlim=(0, 1.02 * end_h), ylim=(0, 102))
        axes.set_xlabel("simulated time (h)", fontsize=8, labelpad=1)
        axes.set_ylabel("test accuracy, mean (%)", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.grid(alpha=0.3)
        self.readout = axes.set_title("", loc="left", fontsize=8)
        self.moving.append(self.readout)

    # --- what moves -------------------------------------------------------------------------------------------

    def _add_clients(self) -> None:
        self.groups = groups_of(self.run)
        members = [np.flatnonzero(self.groups.of == i) for i in range(max(1, len(self.groups.names)))]
        self.named: list[tuple[IntArray, Text]] = []  # more groups than there are shapes have their names on the map
        if len(members) > len(MARKERS):
            texts = [self.map.text(0, 0, plain(name), fontsize=7, ha="center", **HALO) for name in self.groups.names]
            self.named, members = list(zip(members, texts, strict=True)), [np.arange(self.moments.clients)]
            self.moving += texts
        size = 42 if self.moments.clients <= 120 else 20 if self.moments.clients <= 400 else 10
        low, high = accuracy_range(self.moments.changes)
        self.scale = ScalarMappable(Normalize(100 * low, 100 * high), COLOURS)
        style: dict[str, Any] = {"edgecolors": "#101418", "linewidths": 0.8}
        self.marks = [
            (of, self.map.scatter([], [], s=size, marker=MARKERS[i], zorder=5, **style)) for i, of in enumerate(members)
        ]
        self.ring = self.map.scatter([], [], s=4 * size, facecolors="none", edgecolors=BLACK, linewidths=1.5, zorder=6)
        self.name = self.map.annotate(
            "" if self.client is None else f"client {self.client}", (0, 0), (0, 12), textcoords="offset points",
            ha="center", fontsize=9, fontweight="bold", **HALO,
        )  # fmt: skip
        self.moving += [*(mark for _, mark in self.marks), self.ring, self.name]
        bar = self.figure.colorbar(
            self.scale, cax=self._axes(RIGHT_IN, CHART_IN + 0.62, SIDE_IN, 0.1), orientation="horizontal"
        )
        bar.set_label("test accuracy of clients (%)", fontsize=8)
        bar.ax.tick_params(labelsize=8)

    def _add_vehicles(self) -> None:
        self.links = LineCollection([], linewidths=1.8, zorder=4)
        self.map.add_collection(self.links)
        self.moving.append(self.links)
        self.paths, self.arrows, self.circles, self.numbers = [], [], [], []
        range_m = range_of(self.run) if has_positions(self.run.scenario) else None
        for i in range(len(self.moments.vehicles)):
            colour = VEHICLES[i % len(VEHICLES)]
            (path,) = self.map.plot([], [], color=colour, linewidth=1.0, alpha=0.55, zorder=2)
            self.paths.append(path)
            style: dict[str, Any] = {"markersize": 15, "markeredgecolor": "white", "markeredgewidth": 1.2, "zorder": 7}
            (arrow,) = self.map.plot([], [], color=colour, linestyle="none", **style)
            self.arrows.append(arrow)
            number = str(self.moments.vehicles[i]) if len(self.moments.vehicles) > 1 else ""
            name = self.map.annotate(number, (0, 0), (8, 5), textcoords="offset points", fontsize=9, **HALO)
            self.numbers.append(name)
            self.moving += [path, arrow, name]
            if range_m:
                circle = Circle((0, 0), range_m, fill=False, color=colour, linestyle=DASHED, linewidth=0.9, zorder=3)
                self.map.add_patch(circle)
                self.circles.append(circle)
                self.moving.append(circle)

    def _legend(self) -> None:
        several = len(self.moments.vehicles) > 1
        shown = [
            Line2D(
                [],
                [],
                color=arrow.get_color(),
                marker=ARROW,
                markersize=10,
                label=f"vehicle {name}" if several else "vehicle",
            )
            for arrow, name in zip(self.arrows, self.moments.vehicles, strict=True)
        ][:4]
        shown += [
            Line2D([], [], color=GREEN, linewidth=1.8, label="delivered"),
            Line2D([], [], color=ORANGE, linewidth=1.8, linestyle="--", label="lost"),
        ]
        if self.circles:
            shown.append(Line2D([], [], color=GREY, linestyle=DASHED, linewidth=0.9, label="radio range in the open"))
        if len(self.marks) > 1:
            grey: dict[str, Any] = {"linestyle": "none", "color": UNKNOWN, "markeredgecolor": BLACK, "markersize": 6}
            pairs = zip(MARKERS, self.groups.names, strict=False)
            shown += [Line2D([], [], marker=marker, label=plain(name), **grey) for marker, name in pairs]
        below = self._axes(RIGHT_IN, CHART_IN + 1.2, SIDE_IN, 0.1)
        below.set_axis_off()
        below.legend(handles=shown, loc="upper left", ncols=2, fontsize=8, frameon=False, borderpad=0, borderaxespad=0)

    # --- at a time --------------------------------------------------------------------------------------------

    def show(self, time_s: float, hold_s: float = 0.0, fade_s: float = 0.0) -> None:
        """Set all that moves to a time; links stay for a while after their contact, then fade."""
        moments = self.moments
        vehicles, clients = moments.everyone(time_s)
        accuracy = moments.accuracy(time_s)
        colours = np.where(np.isfinite(accuracy)[:, None], self.scale.to_rgba(100 * accuracy), to_rgba_array(UNKNOWN))
        for of, mark in self.marks:
            mark.set_offsets(np.ma.masked_invalid(clients[of]))
            mark.set_facecolor(list(map(tuple, colours[of])))
        for of, text in self.named:
            here = clients[of][np.isfinite(clients[of, 0])]
            text.set_visible(len(here) > 0)
            if len(here):
                text.set_position((float(here[:, 0].mean()), float(here[:, 1].mean())))
        if self.client is not None:
            self.ring.set_offsets(np.ma.masked_invalid(clients[[self.client]]))
            self.name.xy = tuple(clients[self.client])
            self.name.set_visible(bool(np.isfinite(clients[self.client]).all()))
        for i, (path, arrow) in enumerate(zip(self.paths, self.arrows, strict=True)):
            path.set_data(*moments.path(i, time_s).T)
            arrow.set_data([vehicles[i, 0]], [vehicles[i, 1]])
            self.numbers[i].xy = tuple(vehicles[i])
            arrow.set_marker(ARROW.transformed(Affine2D().rotate(moments.heading(i, time_s))))
        for i, circle in enumerate(self.circles):
            circle.set_center((float(vehicles[i, 0]), float(vehicles[i, 1])))
            circle.set_visible(bool(np.isfinite(vehicles[i]).all()))
        self._show_links(time_s, hold_s, fade_s)
        self._show_curves(time_s)
        self.clock.set_text(f"{clock(time_s)}   contact {moments.begun(time_s):,} of {len(moments.contacts):,}")

    def _show_links(self, time_s: float, hold_s: float, fade_s: float) -> None:
        links = self.moments.links(time_s, hold_s, fade_s)
        here = np.isfinite(links.vehicle).all(axis=1) & np.isfinite(links.client).all(axis=1)
        self.links.set_segments(list(np.stack([links.vehicle, links.client], axis=1)[here]))
        colours = np.where(links.delivered[:, None], to_rgba_array(GREEN), to_rgba_array(ORANGE))
        colours[:, 3] = links.alpha
        self.links.set_color(list(map(tuple, colours[here])))
        self.links.set_linestyle(["-" if delivered else (0, (3, 2)) for delivered in links.delivered[here]])

    def _show_curves(self, time_s: float) -> None:
        now, found = time_s / 3600, []
        for x, y, past, dot, name in self.curves:
            count = int(np.searchsorted(x, now + 1e-9, side="right"))
            past.set_data(x[:count], y[:count])
            dot.set_data(x[count - 1 : count], y[count - 1 : count])
            if count:
                found.append(f"{name} {y[count - 1]:.1f} %")
        self.cursor.set_xdata([now, now])
        self.readout.set_text("   ".join(found))


def clock(time_s: float) -> str:
    """Simulated time such as 1:08:36, or 2 d 03:04:05 from one day on."""
    whole = max(0, int(time_s + 1e-6))
    days, hours, rest = whole // 86400, whole // 3600 % 24, f"{whole // 60 % 60:02}:{whole % 60:02}"
    return f"{days} d {hours:02}:{rest}" if days else f"{hours}:{rest}"
