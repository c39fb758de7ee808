"""A vehicle: chooses the client it visits next and drives to it, or follows a route of its own."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from fedmule.mobility.trajectory import Way
from fedmule.radio.walks.past import Logbook, PastContact
from fedmule.radio.walks.policy import Here
from fedmule.simulator.errors import Problem, ScenarioError
from fedmule.simulator.event_queue import Environment
from fedmule.simulator.reaching import LoadOf, Plan, Reaching, reaching
from fedmule.simulator.scenario.vehicle import Vehicle as VehicleKeys
from fedmule.simulator.world import World

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
TrackLog = Callable[[int, FloatArray, FloatArray], None]
FindMeeting = Callable[
    ["Vehicle"], simpy.Event | None
]  # given a vehicle with a new plan: a meeting that begins at once
Steps = Generator[simpy.Event, object, bool]

# Attributes that a checkpoint keeps as they are.
KEPT = ("client", "target", "driven_s", "driven_m", "plan", "plan_until_s", "_deadline", "_frozen_s")
AT_ONCE_S = 600.0  # how much of its route a vehicle drives at a time


class Vehicle:
    """Knows clients' positions from their reports, and from hearing them; stands still unless it drives somewhere.

    While it is `free`, driving or waiting, a meeting may interrupt it; it then waits for the meeting to end.
    """

    def __init__(
        self,
        env: Environment,
        world: World,
        keys: VehicleKeys,
        log: TrackLog,
        number: int,
        draws: np.random.Generator,
        load_of: LoadOf,
        progress: Callable[[], float],
        frozen: Callable[[], bool],
    ) -> None:
        self._env = env
        self._world = world
        self._log = log
        self.draws = draws
        self._give_up_s = keys.give_up_s
        self._reaching: Reaching = reaching(keys, world, number, load_of)
        self._progress = progress  # share of the run that is over
        self._frozen = frozen  # whether the token is final
        self._frozen_s = np.inf  # since when
        self._logbook = Logbook(len(world.graph.members))
        self._route = world.routes[number]
        # Whether its walk asks for what clients report at contacts.
        self.wants_reports = self._route is None and bool(getattr(world.walks[number], "wants_reports", False))
        self.number = number
        self.client: int | None = None  # the one visited last
        self.target: int | None = None  # the one it drives to
        self.way = Way.standing(world.starts[number], env.now)  # the present way; it stands still at the end
        self.driven_s = self.driven_m = 0.0  # in motion so far
        self.free = False
        self.plan = 0  # number of the present plan: to drive somewhere, or to wait
        self.plan_until_s = env.now  # when it will make the next one
        self.find_meeting: FindMeeting = lambda vehicle: None
        self.waits_for: simpy.Event | None = None  # the event at which it will make the next one
        self.resumes_s: float | None = None  # when a wait ends that a checkpoint has cut in two
        self._deadline = np.inf  # when it gives its target up
        self._leg = Plan(self.way, env.now)
        self.interrupt: Callable[[simpy.Event], None] = lambda meeting: None  # the SimPy process's, while it is free
        self._new_plan: Callable[[], None] = lambda: None
        self._new_way: Callable[[], None] = lambda: None
        log(number, self.way.times, self.way.positions)

    def watch(self, new_plan: Callable[[], None], new_way: Callable[[], None]) -> None:
        """Call these whenever it has another plan or is free no more, and whenever it drives another way."""
        self._new_plan, self._new_way = new_plan, new_way

    @property
    def xy(self) -> FloatArray:
        """Its position [2] now, m."""
        return self.way.at(self._env.now)

    @property
    def has_route(self) -> bool:
        """Whether it follows a route of its own and visits nobody."""
        return self._route is not None

    def choose(self) -> int:
        """The client to drive to next."""
        now, driving = self._env.now, self._world.driving[self.number]
        if self._frozen_s > now and self._frozen():
            self._frozen_s = now
        here = Here(self.client, self.xy, now, self._progress(), self._logbook.past, driving, self._frozen_s)
        client = self._world.walks[self.number].next(here, self.draws)
        members = self._world.graph.members
        if not (isinstance(client, int | np.integer) and 0 <= client < len(members) and members[client]):
            message = "must choose one of graph.reachable, but next() returned something else"
            raise ScenarioError("vehicle.walk", [Problem("vehicle.walk.kind", message, str(client))])
        return int(client)

    def met(self, contact: PastContact) -> None:
        """Remember a contact of its own that has ended."""
        self._logbook.met(contact)

    def heard(self, clients: IntArray, losses: FloatArray, dual_norms: FloatArray) -> None:
        """Remember what clients reported at a contact."""
        self._logbook.heard(clients, losses, dual_norms)

    def gave_up(self, client: int) -> None:
        """Remember that it has given up driving to a client."""
        self._logbook.gave_up(client, self._env.now)

    def chase(self, client: int) -> Steps:
        """Drive to a client until it has reached it; False if it gave up, after give_up_s at the latest."""
        if self.resumes_s is None:
            self.target, self._deadline = client, self._env.now + self._give_up_s
        while True:
            if self.resumes_s is None:
                now = self._env.now
                there = self._world.positions.there(now)
                if there is not None and not there[client]:
                    return False
                self._world.positions.advance(now)
                self._leg = plan = self._reaching.plan(client, now, self.xy, self._deadline)
                self._drive(plan.way)
                uninterrupted = yield from self.wait(self._env.timeout(plan.until_s - now), plan.until_s)
            else:
                uninterrupted = yield from self.wait_on()
            self.rest()
            if self._leg.reaches and uninterrupted and self.is_at(client):
                return True
            if self._leg.gives_up:
                return False
            if self._env.now >= self._deadline:
                return self.is_at(client)

    def is_at(self, client: int) -> bool:
        """Whether it has reached a client where it is now."""
        self._world.positions.advance(self._env.now)
        return self._reaching.is_at(client, self._env.now, self.xy)

    def follow(self) -> Generator[simpy.Event, object, None]:
        """Drive the next part of its route."""
        assert self._route is not None
        if self.resumes_s is None:
            now = self._env.now
            part = self._route.part(now, now + AT_ONCE_S)
            self._drive(part)
            until_s = float(part.times[-1])
            yield from self.wait(self._env.timeout(until_s - now), until_s)
        else:
            yield from self.wait_on()
        self.rest()

    def wait(self, event: simpy.Event, until_s: float = np.inf) -> Steps:
        """Drive on, or stand still, until an event (at a time, if known); False if a meeting interrupted it first."""
        self.plan, self.plan_until_s, self.free = self.plan + 1, until_s, True
        self._new_plan()
        return (yield from self._wait(event, self.find_meeting(self)))

    def wait_on(self) -> Steps:
        """Go on with a wait that a checkpoint has cut in two."""
        assert self.resumes_s is not None
        event, self.resumes_s = self._env.timeout_at(self.resumes_s), None
        return (yield from self._wait(event, None))

    def _wait(self, event: simpy.Event, meeting: simpy.Event | None) -> Steps:
        self.waits_for = event
        if meeting is None:
            try:
                yield event
            except simpy.Interrupt as interrupt:
                meeting = interrupt.cause
        self.free = False
        self._new_plan()
        if meeting is not None:
            yield meeting
        return meeting is None

    def rest(self) -> None:
        """Stop here, and log the way driven."""
        driven = self.way.until(self._env.now)
        moved_s, moved_m = driven.moved()
        self.driven_s, self.driven_m = self.driven_s + moved_s, self.driven_m + moved_m
        self._log(self.number, driven.times, driven.positions)
        self._drive(driven.end())

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps of a vehicle that drives or waits, besides its contacts."""
        return {
            **{name: getattr(self, name) for name in KEPT},
            "leg": (self._leg.until_s, self._leg.reaches, self._leg.gives_up),
            "way": (self.way.times, self.way.positions),
            "reaching": self._reaching.state(),
            "logbook": self._logbook.state(),
        }

    def restore(self, state: dict[str, Any], contacts: list[PastContact], resumes_s: float | None) -> None:
        """Restore what `state` returned, and its contacts; the present wait ends at that time."""
        for name in KEPT:
            setattr(self, name, state[name])
        self.way = Way(*state["way"])
        self._leg = Plan(self.way, *state["leg"])
        self._reaching.restore(state["reaching"])
        self._logbook.restore(state["logbook"], contacts)
        self.free, self.resumes_s = True, resumes_s

    @property
    def contacts(self) -> list[PastContact]:
        """Its own contacts so far."""
        return self._logbook.contacts

    def _drive(self, way: Way) -> None:
        self.way = way
        self._new_way()
