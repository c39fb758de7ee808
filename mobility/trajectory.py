"""Positions of all clients at any time: piecewise-linear trajectories, extended on demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.models.movement import FloatArray, IntArray, Movement, Waypoints, somewhere


class Trajectories:
    """The current leg of each client, and the waypoints known beyond it; all clients are looked up at once.

    Times given to `positions` must not decrease.
    """

    def __init__(self, movement: Movement) -> None:
        self.movement = movement
        self._log: Callable[[Waypoints], None] = lambda waypoints: None
        self.recorded = False  # whether every waypoint is passed on as it is reached
        self._from = np.array(movement.start(), dtype=float)
        n = len(self._from)
        self._to = self._from.copy()
        self._leave = np.zeros(n)
        self._arrive = np.full(n, np.inf) if movement.still else np.zeros(n)
        # Waypoints beyond the leg: a queue per client, those of client i in [i, first[i]:last[i]].
        self._queue_t = np.empty((n, 4))
        self._queue_xy = np.empty((n, 4, 2))
        self._first = np.zeros(n, dtype=np.int64)
        self._last = np.zeros(n, dtype=np.int64)
        self._paths: dict[int, tuple[FloatArray, FloatArray]] = {}  # those asked for since they changed

    def record(self, log: Callable[[Waypoints], None]) -> None:
        """Pass every waypoint to `log` as it is reached, from time 0 on: a complete trace of the movement.

        A waypoint without a position (nan) marks its client as absent until its next waypoint.
        """

        def log_with_absences(waypoints: Waypoints) -> None:
            xy = np.where(somewhere(waypoints.xy)[:, None], waypoints.xy, np.nan)
            log(Waypoints(waypoints.client, waypoints.t, xy))

        self._log, self.recorded = log_with_absences, True
        log_with_absences(Waypoints(np.arange(len(self)), np.zeros(len(self)), self._from))

    def __len__(self) -> int:
        return len(self._from)

    @property
    def still(self) -> bool:
        """Whether clients stay where they are between visits."""
        return self.movement.still

    def positions(self, t: float) -> FloatArray:
        """Positions [n,2] at time t, which must not be earlier than in the last call."""
        if self.still:
            return self._from
        self._advance(np.arange(len(self)), np.full(len(self), t))
        return _on_leg(t, self._leave, self._arrive, self._from, self._to)

    def positions_at(self, clients: IntArray, t: FloatArray) -> FloatArray:
        """Positions [m,2] of some clients, each once and at its own time [m], not earlier than it was last asked for.

        The next call of `positions` must not be for an earlier time than any of these.
        """
        if self.still:
            return self._from[clients]
        self._advance(clients, t)
        return _on_leg(t, *(each[clients] for each in (self._leave, self._arrive, self._from, self._to)))

    def path(self, client: int, until: float) -> tuple[FloatArray, FloatArray]:
        """Times [k] and positions [k,2] of a client's waypoints from its current leg to beyond `until`; read only."""
        if self.still:
            return np.array([0.0, np.inf]), self._from[[client, client]]
        known = self._paths.get(client)
        if known is not None and known[0][-1] > until:
            return known
        while self._end_of(client) <= until:
            self._extend(np.array([client]))
        first, last = int(self._first[client]), int(self._last[client])
        times, positions = np.empty(last - first + 2), np.empty((last - first + 2, 2))
        times[0], times[1], times[2:] = self._leave[client], self._arrive[client], self._queue_t[client, first:last]
        positions[0], positions[1] = self._from[client], self._to[client]
        positions[2:] = self._queue_xy[client, first:last]
        self._paths[client] = times, positions
        return times, positions

    def boxes(self, until: float, clients: IntArray) -> tuple[FloatArray, FloatArray]:
        """Lowest and highest coordinates [m,2] of clients [m] from their current legs to beyond `until`."""
        while (short := clients[self._ends(clients) <= until]).size:
            self._extend(short)
        low, high = (best(self._from[clients], self._to[clients]) for best in (np.minimum, np.maximum))
        first, last, queue_xy = self._first[clients], self._last[clients], self._queue_xy[clients]
        slots = np.arange(self._queue_t.shape[1])
        ahead = (slots >= first[:, None]) & (slots < last[:, None])
        leaves = np.empty((len(clients), len(slots)))  # when the leg before the waypoint in each slot begins
        leaves[:, 1:] = self._queue_t[clients, :-1]
        leaves[slots == first[:, None]] = self._arrive[clients][first < len(slots)]
        ahead &= leaves < until
        low = np.minimum(low, np.where(ahead[:, :, None], queue_xy, np.inf).min(axis=1))
        high = np.maximum(high, np.where(ahead[:, :, None], queue_xy, -np.inf).max(axis=1))
        return low, high

    def after_visit(self, visit: int, t: float) -> bool:
        """Let the mobility model redraw all positions after a visit; return whether it did."""
        positions = self.movement.after_visit(visit)
        if positions is None:
            return False
        n = len(self)
        for xy in (self._from, positions):  # two waypoints at one time: a jump
            self._log(Waypoints(np.arange(n), np.full(n, t), xy))
        self._from, self._to = positions.copy(), positions.copy()
        return True

    def forget_paths(self) -> None:
        """Forget the paths that have been asked for; they will be found again."""
        self._paths.clear()

    def finish(self, t: float) -> None:
        """Log all positions at the end, if they are recorded."""
        if self.recorded:
            self._log(Waypoints(np.arange(len(self)), np.full(len(self), t), self.positions(t)))

    def _ends(self, clients: IntArray) -> FloatArray:
        """Times [m] of the last waypoints known of these clients."""
        last = self._last[clients]
        newest = self._queue_t[clients, np.maximum(last - 1, 0)]
        return np.where(last > self._first[clients], newest, self._arrive[clients])

    def _end_of(self, client: int) -> float:
        last = self._last[client]
        return float(self._queue_t[client, last - 1] if last > self._first[client] else self._arrive[client])

    def _advance(self, clients: IntArray, goal: FloatArray) -> None:
        """Move clients [m] to the legs that contain their times [m]."""
        behind = self._arrive[clients] < goal
        late, goal = clients[behind], goal[behind]
        while late.size:
            empty = late[self._first[late] == self._last[late]]
            if empty.size:
                self._extend(empty)
            self._log(Waypoints(late, self._arrive[late], self._to[late]))
            self._leave[late] = self._arrive[late]
            self._from[late] = self._to[late]
            self._arrive[late] = self._queue_t[late, self._first[late]]
            self._to[late] = self._queue_xy[late, self._first[late]]
            self._first[late] += 1
            self._forget(late)
            behind = self._arrive[late] < goal
            late, goal = late[behind], goal[behind]

    def _extend(self, clients: IntArray) -> None:
        """Ask the mobility model for the waypoints that follow the last known ones, and queue them."""
        has_queue = self._last[clients] > self._first[clients]
        newest = np.maximum(self._last[clients] - 1, 0)
        t = np.where(has_queue, self._queue_t[clients, newest], self._arrive[clients])
        xy = np.where(has_queue[:, None], self._queue_xy[clients, newest], self._to[clients])
        self._append(self.movement.extend(clients, t, xy))

    def _append(self, new: Waypoints) -> None:
        order = np.argsort(new.client, kind="stable")
        client, start, count = np.unique(new.client[order], return_index=True, return_counts=True)
        self._move_to_front(client)
        self._make_room(int((self._last[client] + count).max()))
        nth = np.arange(len(order)) - np.repeat(start, count)  # index among the new waypoints of the same client
        row, slot = np.repeat(client, count), np.repeat(self._last[client], count) + nth
        self._queue_t[row, slot] = new.t[order]
        self._queue_xy[row, slot] = new.xy[order]
        self._last[client] += count
        self._forget(client)

    def _forget(self, clients: IntArray) -> None:
        for client in clients.tolist():
            self._paths.pop(client, None)

    def _move_to_front(self, client: IntArray) -> None:
        """Shift these queues back to their first slot, so that they do not grow forever."""
        moved = client[self._first[client] > 0]
        slots = self._queue_t.shape[1]
        order = np.minimum(self._first[moved, None] + np.arange(slots), slots - 1)
        self._queue_t[moved] = np.take_along_axis(self._queue_t[moved], order, axis=1)
        self._queue_xy[moved] = np.take_along_axis(self._queue_xy[moved], order[:, :, None], axis=1)
        self._last[moved] -= self._first[moved]
        self._first[moved] = 0

    def _make_room(self, slots: int) -> None:
        have = self._queue_t.shape[1]
        if slots > have:
            more = max(slots, 2 * have) - have
            self._queue_t = np.pad(self._queue_t, ((0, 0), (0, more)))
            self._queue_xy = np.pad(self._queue_xy, ((0, 0), (0, more), (0, 0)))


def _on_leg(
    t: FloatArray | float, leave: FloatArray, arrive: FloatArray, start: FloatArray, end: FloatArray
) -> FloatArray:
    """Positions [m,2] at a time on legs that leave `start` [m,2] and arrive at `end` [m,2] at these times [m]."""
    span = arrive - leave
    fraction = np.clip((t - leave) / np.where(span > 0, span, 1.0), 0.0, 1.0)
    return np.asarray(start + fraction[:, None] * (end - start))


Times = NDArray[np.float64]


@dataclass(frozen=True)
class Way:
    """A path through waypoints: linear in between, held at the first one before and at the last one after."""

    times: FloatArray  # [k] s
    positions: FloatArray  # [k,2] m

    @classmethod
    def standing(cls, position: FloatArray, t: float = 0.0) -> Way:
        """Standing still at a position [2]."""
        return cls(np.array([t], dtype=float), position[None])

    def at(self, t: float) -> FloatArray:
        """Position [2] at time t."""
        return np.asarray(position_at(self.times, self.positions, np.array([t], dtype=float))[0])

    def at_times(self, t: Times, side: Literal["left", "right"] = "right") -> FloatArray:
        """Positions [m,2] at times [m]; at a jump the later one, or the earlier one for side "left"."""
        return position_at(self.times, self.positions, t, side)

    def until(self, t: float) -> Way:
        """The part up to time t."""
        passed = self.times < t
        return Way(np.append(self.times[passed], t), np.concatenate([self.positions[passed], self.at(t)[None]]))

    def between(self, start: float, end: float) -> Way:
        """The part from one time to another."""
        inner = (self.times > start) & (self.times < end)
        times = np.concatenate([[start], self.times[inner], [end]])
        return Way(times, np.concatenate([self.at(start)[None], self.positions[inner], self.at(end)[None]]))

    def box(self, start: float, end: float) -> tuple[FloatArray, FloatArray]:
        """Lowest and highest coordinates [2] from one time to another."""
        ends = self.at_times(np.array([start, end], dtype=float))
        inner = self.positions[(self.times > start) & (self.times < end)]
        every = np.concatenate([ends, inner])
        return every.min(axis=0), every.max(axis=0)

    def end(self) -> Way:
        """The last waypoint alone: standing still there."""
        return Way(self.times[-1:], self.positions[-1:])

    def moved(self) -> tuple[float, float]:
        """Seconds in motion between the first and the last waypoint, and metres; a jump is none."""
        took, steps_m = np.diff(self.times), np.hypot(*np.diff(self.positions, axis=0).T)
        moving = (took > 0) & (steps_m > 0)
        return float(took[moving].sum()), float(steps_m[moving].sum())


def first_within(
    t_a: Times, a: FloatArray, t_b: Times, b: FloatArray, distance_m: float, start: float, end: float
) -> float | None:
    """First time in [start, end] at which two piecewise-linear paths are within a distance; None if never.

    Paths are waypoint times [k] and positions [k,2]; each holds its last position. Exact: roots of a quadratic.
    """
    from fedmule.mobility.path_lookup import first_near  # slow to import, so only where needed

    found = first_near(t_a, a, t_b, b, float(distance_m), float(start), float(end))
    return None if found != found else float(found)  # nan: never


def position_at(times: Times, positions: FloatArray, t: Times, side: Literal["left", "right"] = "right") -> FloatArray:
    """Positions [m,2] of a path at times [m].

    Where two waypoints share a time (a jump), the later one counts, or the earlier one for side "left".
    """
    from fedmule.mobility.path_lookup import look_up  # slow to import, so only where needed

    return np.asarray(look_up(times, positions, t, side == "right"))
