"""A vehicle: chooses the client it wants to visit and chases it, round what stops it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from fedmule.mobility.trajectory import Way, first_within
from fedmule.radio.walks.policy import Here
from fedmule.simulator.errors import Problem, ScenarioError
from fedmule.simulator.scenario import Vehicle as VehicleKeys
from fedmule.simulator.world import World

TOUCH = 1 - 1e-9  # stop a hair inside approach_m, so that rounding does not leave it outside

TrackLog = Callable[[int, NDArray[np.float64], NDArray[np.float64]], None]
LookOut = Callable[["Vehicle"], "simpy.Event | None"]  # told of every new plan; the meeting that begins at once, if any


class Vehicle:
    """Knows clients' positions only from their reports; stands still unless it chases.

    While it is `free`, on its way or waiting, it may be interrupted by an event that it then waits for: a meeting.
    """

    def __init__(
        self,
        env: simpy.Environment,
        world: World,
        keys: VehicleKeys,
        log: TrackLog,
        number: int,
        draws: np.random.Generator,
    ) -> None:
        self._env = env
        self._world = world
        self._keys = keys
        self._log = log
        self._draws = draws
        self.number = number
        self.client: int | None = None  # the one visited last
        self.way = Way(np.array([env.now]), world.starts[number][None])  # the way it is on; it rests at the end
        self.free = False
        self.plan = 0  # counts the times it set out or began to wait
        self.plan_until_s = env.now  # when it will think again
        self.look_out: LookOut = lambda vehicle: None
        self.interrupt: Callable[[simpy.Event], None] = lambda meeting: None  # its life's, while it is free
        log(number, self.way.times, self.way.positions)

    @property
    def xy(self) -> NDArray[np.float64]:
        """Where it is now."""
        return self.way.at(self._env.now)

    def choose(self) -> int:
        """The client to drive to next."""
        client = self._world.walks[self.number].next(Here(self.client, self.xy), self._draws)
        members = self._world.graph.members
        if not (isinstance(client, int | np.integer) and 0 <= client < len(members) and members[client]):
            message = "must choose one of graph.reachable, but next() returned something else"
            raise ScenarioError("vehicle.walk", [Problem("vehicle.walk.kind", message, str(client))])
        return int(client)

    def chase(self, client: int) -> Generator[Any, Any, bool]:
        """Drive to within approach_m of a client, re-aiming at every report; False if it had to give up."""
        positions, keys = self._world.positions, self._keys
        deadline = self._env.now + keys.give_up_s
        while True:
            now = self._env.now
            there = positions.there(now)
            if there is not None and not there[client]:
                return False
            positions.advance(now)
            aim = positions.known(np.array([client]))[0]
            seconds, route = self._world.driving.way(self.xy, aim)
            self.way = Way(now + seconds, route)
            until = min(positions.next_report_s, deadline)
            met = first_within(
                self.way.times,
                self.way.positions,
                *positions.trajectories.path(client, until),
                distance_m=keys.approach_m * TOUCH,
                start=now,
                end=until,
            )
            thinks_s = until if met is None else met
            undisturbed = yield from self.wait(self._env.timeout(thinks_s - now), thinks_s)
            self.rest()
            if met is not None and undisturbed:
                return True
            if self._env.now >= deadline:
                return False

    def is_at(self, client: int) -> bool:
        """Whether it is within approach_m of a client now."""
        positions = self._world.positions
        positions.advance(self._env.now)
        return bool(np.hypot(*(positions.true(np.array([client]))[0] - self.xy)) <= self._keys.approach_m)

    def wait(self, event: simpy.Event, until_s: float = np.inf) -> Generator[Any, Any, bool]:
        """Go on until an event (at a time, if known); False if a meeting came in between, which is over then."""
        self.plan, self.plan_until_s, self.free = self.plan + 1, until_s, True
        meeting = self.look_out(self)
        if meeting is None:
            try:
                yield event
            except simpy.Interrupt as call:
                meeting = call.cause
        self.free = False
        if meeting is not None:
            yield meeting
        return meeting is None

    def rest(self) -> None:
        """Stop here, and log the way that led here."""
        gone = self.way.until(self._env.now)
        self._log(self.number, gone.times, gone.positions)
        self.way = gone.end()
