"""Whereabouts: who may be near a place, from where each client was last seen and how far it can have moved since."""

from __future__ import annotations

import math

import numpy as np

from fedmule.mobility.models.movement import FloatArray, IntArray

SLACK_M = 1.0  # beyond what speeds allow, for what routes keep off walls
LARGER = 8.0  # how much larger the smallest cells are than the radius asked for
TIMES = 4.0  # how much larger the cells of a level are than those of the level below
LEVELS = 4
MOST_LISTS = 4096  # that are kept, before all are forgotten

Cell = tuple[int, float, int, int]  # level, radius, column and row


class Whereabouts:
    """Candidates for a place, found without examining everybody each time.

    Everybody is within `top_speed_mps` times the time since it was last seen of where it was then, and so is what it
    has reported since; what it reported before lies within that speed times its age, and `error_m` more. For each
    square cell of places that is asked for, the clients that may come near it within some time are listed, from the
    list of a larger cell, and so on up to all clients.
    """

    def __init__(self, xy: FloatArray, top_speed_mps: float, error_m: float) -> None:
        self.seen_s = np.zeros(len(xy))  # [n] when each was last seen
        self._xy = xy.copy()  # [n,2] where that was
        self._age_s = np.zeros(len(xy))  # [n] how old its last report was then
        self._everyone = np.arange(len(xy))
        self._speed_mps = top_speed_mps
        self._margin_m = error_m + SLACK_M
        self._lists: dict[Cell, tuple[float, IntArray]] = {}  # until when each holds, and whom

    def see(self, clients: IntArray, xy: FloatArray, t: float, reported_s: FloatArray) -> None:
        """Note where clients [m] are at time t, and when [m] they sent what is known of them."""
        self._xy[clients], self.seen_s[clients], self._age_s[clients] = xy, t, t - reported_s

    def near(self, position: FloatArray, radius_m: float, t: float) -> IntArray:
        """Clients that may be within a radius of a position, truly or by their last reports, by time t; ascending."""
        least_m = max(radius_m, self._margin_m)
        rounded_m = float(2.0 ** math.ceil(math.log2(least_m)))  # so that few lists serve many radii
        _, among = self._listed(position, rounded_m, t, 0)
        return self._within(among, position, radius_m, t)

    def _listed(self, position: FloatArray, radius_m: float, t: float, level: int) -> tuple[float, IntArray]:
        """Until when a list holds, and who may come within a radius of any place of the position's cell until then."""
        if level == LEVELS:
            return math.inf, self._everyone
        sides_m = LARGER * radius_m * TIMES ** np.arange(level + 1)
        # Of the larger cell everybody must be listed who may come near any place of a cell that contains the position.
        reach_m, side_m = radius_m + 1.5 * float(sides_m[:-1].sum()), float(sides_m[-1])
        column, row = np.floor(position / side_m).astype(np.int64).tolist()
        cell = level, radius_m, column, row
        known = self._lists.get(cell)
        if known is not None and t <= known[0]:
            return known
        larger_s, among = self._listed(position, radius_m, t, level + 1)
        until_s = min(t + side_m / 2 / max(self._speed_mps, 1e-9), larger_s)
        centre = (np.array([column, row]) + 0.5) * side_m
        found = until_s, self._within(among, centre, reach_m + side_m * math.sqrt(0.5), until_s)
        if len(self._lists) >= MOST_LISTS:
            self._lists.clear()
        self._lists[cell] = found
        return found

    def _within(self, among: IntArray, position: FloatArray, radius_m: float, t: float) -> IntArray:
        """Those of these clients that may be within a radius, truly or by their last reports, by time t."""
        gap = self._xy[among] - position
        moved_s = np.maximum(t - self.seen_s[among], self._age_s[among])
        return among[np.hypot(gap[:, 0], gap[:, 1]) <= radius_m + self._margin_m + self._speed_mps * moved_s]
