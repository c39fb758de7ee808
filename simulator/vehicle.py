"""A vehicle: chooses the client it visits next and drives to it, around obstacles."""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np
import simpy
from numpy.typing import NDArray

from fedmule.mobility.trajectory import Way, first_within
from fedmule.radio.walks.policy import Here
from fedmule.simulator.errors import Problem, ScenarioError
from fedmule.simulator.scenario.vehicle import Vehicle as VehicleKeys
from fedmule.simulator.world import World

INSIDE = 1 - 1e-9  # of approach_m: stop just inside, so that rounding does not leave the vehicle outside

FloatArray = NDArray[np.float64]
TrackLog = Callable[[int, FloatArray, FloatArray], None]
FindMeeting = Callable[
    ["Vehicle"], simpy.Event | None
]  # given a vehicle with a new plan: a meeting that begins at once
Steps = Generator[simpy.Event, object, bool]


class Vehicle:
    """Knows clients' positions only from their reports; stands still unless it drives to a client.

    While it is `free`, driving or waiting, a meeting may interrupt it; it then waits for the meeting to end.
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
        self.way = Way(np.array([env.now]), world.starts[number][None])  # the present way; it stands still at the end
        self.free = False
        self.plan = 0  # number of the present plan: to drive somewhere, or to wait
        self.plan_until_s = env.now  # when it will make the next one
        self.find_meeting: FindMeeting = lambda vehicle: None
        self.interrupt: Callable[[simpy.Event], None] = lambda meeting: None  # the SimPy process's, while it is free
        log(number, self.way.times, self.way.positions)

    @property
    def xy(self) -> FloatArray:
        """Its position [2] now, m."""
        return self.way.at(self._env.now)

    def choose(self) -> int:
        """The client to drive to next."""
        client = self._world.walks[self.number].next(Here(self.client, self.xy), self._draws)
        members = self._world.graph.members
        if not (isinstance(client, int | np.integer) and 0 <= client < len(members) and members[client]):
            message = "must choose one of graph.reachable, but next() returned something else"
            raise ScenarioError("vehicle.walk", [Problem("vehicle.walk.kind", message, str(client))])
        return int(client)

    def chase(self, client: int) -> Steps:
        """Drive to within approach_m of a client, re-aiming at every report; False if it gave up after give_up_s."""
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
                distance_m=keys.approach_m * INSIDE,
                start=now,
                end=until,
            )
            next_s = until if met is None else met
            uninterrupted = yield from self.wait(self._env.timeout(next_s - now), next_s)
            self.rest()
            if met is not None and uninterrupted:
                return True
            if self._env.now >= deadline:
                return False

    def is_at(self, client: int) -> bool:
        """Whether it is within approach_m of a client now."""
        positions = self._world.positions
        positions.advance(self._env.now)
        return bool(np.hypot(*(positions.true(np.array([client]))[0] - self.xy)) <= self._keys.approach_m)

    def wait(self, event: simpy.Event, until_s: float = np.inf) -> Steps:
        """Drive on, or stand still, until an event (at a time, if known); False if a meeting interrupted it first."""
        self.plan, self.plan_until_s, self.free = self.plan + 1, until_s, True
        meeting = self.find_meeting(self)
        if meeting is None:
            try:
                yield event
            except simpy.Interrupt as interrupt:
                meeting = interrupt.cause
        self.free = False
        if meeting is not None:
            yield meeting
        return meeting is None

    def rest(self) -> None:
        """Stop here, and log the way driven."""
        driven = self.way.until(self._env.now)
        self._log(self.number, driven.times, driven.positions)
        self.way = driven.end()
