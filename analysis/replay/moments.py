"""A run at any simulated time: positions, accuracies and links, for pictures drawn without a browser."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedmule.analysis.loading import Run
from fedmule.analysis.replay.placing import placed
from fedmule.analysis.replay.tracks import tracks_of

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
NORTH = np.pi / 2


@dataclass(frozen=True)
class Links:
    """Exchanges of vehicles with clients: their ends [k,2], whether they were delivered, how visible they are."""

    vehicle: FloatArray
    client: FloatArray
    delivered: NDArray[np.bool_]  # [k]
    alpha: FloatArray  # [k] from 1, at once, to 0


class Moments:
    """The states of a run. Times may be asked for in any order; ascending ones are the quickest."""

    def __init__(self, run: Run) -> None:
        self.run, self.size_m = placed(run)
        self.clients = int(run.scenario["clients"]["count"])
        track, contacts = self.run.track, self.run.contacts
        self.contacts = contacts.sort_values("sim_time_s", kind="stable").reset_index(drop=True)
        self.vehicles = sorted({int(i) for i in track.loc[track["node"] == "vehicle", "id"]})
        self.tracks = tracks_of(track, self.vehicles, self.clients)
        self.end_s = max(float(table["sim_time_s"].max()) for table in (track, contacts, run.clients) if len(table))
        self._span = self.end_s + 1.0
        self._key = self.tracks.node * self._span + self.tracks.t  # ascending
        nodes = np.arange(len(self.vehicles) + self.clients + 1)
        self.first = np.searchsorted(self.tracks.node, nodes)  # waypoints of node i: first[i]:first[i+1]
        self._links = _exchanges(self.contacts, self.vehicles)
        self._changes = _changes(self.contacts, run.clients)
        self._accuracy, self._seen = np.full(self.clients, np.nan), 0

    @property
    def changes(self) -> FloatArray:
        """Every accuracy that a client ever has."""
        return self._changes[2]

    def positions(self, node: IntArray, time_s: FloatArray) -> FloatArray:
        """Positions [k,2] of nodes, vehicles first, each at its time; nan if absent."""
        tracks = self.tracks
        if not len(tracks.t):
            return np.full((len(node), 2), np.nan)
        leg = np.searchsorted(self._key, node * self._span + time_s, side="right") - 1
        leg = np.clip(leg, self.first[node], np.maximum(self.first[node + 1] - 1, self.first[node]))
        leg = np.minimum(leg, len(tracks.t) - 1)
        after = np.minimum(leg + 1, len(tracks.t) - 1)
        moves = (leg + 1 < self.first[node + 1]) & np.isfinite(tracks.x[after]) & (tracks.t[after] > tracks.t[leg])
        span = np.where(moves, tracks.t[after] - tracks.t[leg], 1.0)
        share = np.where(moves, np.clip((time_s - tracks.t[leg]) / span, 0.0, 1.0), 0.0)
        xy = [c[leg] + np.where(moves, share * (c[after] - c[leg]), 0.0) for c in (tracks.x, tracks.y)]
        known = self.first[node] < self.first[node + 1]
        return np.where(known[:, None], np.stack(xy, axis=1), np.nan)

    def everyone(self, time_s: float) -> tuple[FloatArray, FloatArray]:
        """Positions of all vehicles [v,2] and all clients [n,2] at a time."""
        node = np.arange(len(self.vehicles) + self.clients)
        found = self.positions(node, np.full(len(node), time_s))
        return found[: len(self.vehicles)], found[len(self.vehicles) :]

    def path(self, vehicle: int, time_s: float) -> FloatArray:
        """What a vehicle has driven until a time [k,2]."""
        own = slice(self.first[vehicle], self.first[vehicle + 1])
        passed = own.start + int(np.searchsorted(self.tracks.t[own], time_s, side="right"))
        driven = np.stack([self.tracks.x[own.start : passed], self.tracks.y[own.start : passed]], axis=1)
        return np.concatenate([driven, self.positions(np.array([vehicle]), np.array([time_s]))])

    def heading(self, vehicle: int, time_s: float) -> float:
        """Heading of a vehicle in radians: that of its leg, or of the last one on which it moved."""
        own = slice(self.first[vehicle], self.first[vehicle + 1])
        passed = int(np.searchsorted(self.tracks.t[own], time_s, side="right"))
        steps = [np.diff(c[own][: passed + 1][-200:]) for c in (self.tracks.x, self.tracks.y)]
        moved = np.flatnonzero(np.isfinite(steps[0]) & (np.hypot(*steps) > 0))
        return float(np.arctan2(steps[1][moved[-1]], steps[0][moved[-1]])) if len(moved) else NORTH

    def accuracy(self, time_s: float) -> FloatArray:
        """Accuracy [n] of personal models: as last evaluated, or as it was after a later contact of the client."""
        when, client, value = self._changes
        seen = int(np.searchsorted(when, time_s + 1e-6, side="right"))
        if seen < self._seen:
            self._accuracy, self._seen = np.full(self.clients, np.nan), 0
        self._accuracy[client[self._seen : seen]] = value[self._seen : seen]  # of several, the last one stays
        self._seen = seen
        return self._accuracy

    def links(self, time_s: float, hold_s: float = 0.0, fade_s: float = 0.0) -> Links:
        """Links of contacts under way, and of those that ended a while ago; these stay as they were at their end."""
        table = self._links
        ago = time_s - table["end"].to_numpy()
        some = table[(table["begin"].to_numpy() <= time_s) & (ago <= hold_s + fade_s)]
        ago = time_s - some["end"].to_numpy()
        at = np.minimum(time_s, some["end"].to_numpy())
        client = self.positions(len(self.vehicles) + some["client"].to_numpy(), at)
        standing = some[["x", "y"]].to_numpy(np.float64)
        vehicle = np.where(some[["passing"]], self.positions(some["vehicle"].to_numpy(), at), standing)
        alpha = np.clip(1 - (ago - hold_s) / fade_s, 0.0, 1.0) if fade_s > 0 else np.ones(len(ago))
        return Links(vehicle, client, some["delivered"].to_numpy(bool), alpha)

    def begun(self, time_s: float) -> int:
        """Number of contacts that have begun."""
        return int((self.contacts["sim_time_s"] - self.contacts["contact_s"] <= time_s).sum())


def accuracy_range(values: FloatArray) -> tuple[float, float]:
    """Lowest and highest of these accuracies, rounded outwards to 5 %."""
    known = values[np.isfinite(values)]
    if not len(known):
        return 0.0, 1.0
    low, high = np.floor(20 * known.min() + 1e-9) / 20, np.ceil(20 * known.max() - 1e-9) / 20
    return (float(low), float(high)) if high > low else (max(0.0, low - 0.05), min(1.0, high + 0.05))


def _exchanges(contacts: pd.DataFrame, vehicles: list[int]) -> pd.DataFrame:
    """A row per exchange of a contact: when, between whom, from where, and whether it was delivered."""
    counts = [len(ids) for ids in contacts["active_ids"]]
    row = np.repeat(np.arange(len(contacts)), counts)
    client = np.concatenate([np.zeros(0, np.int64), *(np.asarray(ids, np.int64) for ids in contacts["active_ids"])])
    pairs = zip(contacts["active_ids"], contacts["delivered_ids"], strict=True)
    delivered = [np.isin(np.asarray(asked), np.asarray(got)) for asked, got in pairs]
    order = {vehicle: i for i, vehicle in enumerate(vehicles)}
    end = contacts["sim_time_s"].to_numpy(np.float64)
    return pd.DataFrame(
        {
            "client": client,
            "vehicle": np.array([order.get(v, 0) for v in contacts["vehicle"]], dtype=np.int64)[row],
            "begin": (end - contacts["contact_s"].to_numpy(np.float64))[row],
            "end": end[row],
            "x": contacts["vehicle_x_m"].to_numpy(np.float64)[row],
            "y": contacts["vehicle_y_m"].to_numpy(np.float64)[row],
            "passing": contacts["in_passing"].to_numpy(bool)[row],
            "delivered": np.concatenate([np.zeros(0, bool), *delivered]).astype(bool),
        }
    )


def _changes(contacts: pd.DataFrame, clients: pd.DataFrame) -> tuple[FloatArray, IntArray, FloatArray]:
    """Times [k], ascending, clients [k] and their accuracies [k] from then on."""
    parts = [clients[["sim_time_s", "client", "test_acc"]].set_axis(["when", "client", "value"], axis=1)]
    if "delivered_test_acc" in contacts:  # older runs lack it
        known = contacts[contacts["delivered_test_acc"].notna() & (contacts["delivered"] > 0)]
        each = known[["sim_time_s", "delivered_ids", "delivered_test_acc"]].explode(
            ["delivered_ids", "delivered_test_acc"]
        )
        parts.insert(0, each.set_axis(["when", "client", "value"], axis=1))
    table = pd.concat([part for part in parts if len(part)] or parts).sort_values("when", kind="stable")
    return tuple(table[name].to_numpy(kind) for name, kind in zip(table, (float, np.int64, float), strict=True))  # type: ignore[return-value]
