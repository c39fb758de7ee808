"""Meetings of vehicles: they begin at the exact moment two come into range, and are exchanges like any other."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Literal

import numpy as np
import simpy
from numpy.typing import NDArray

from fedmule.learning.algorithms.base import Exchange
from fedmule.radio.channel import Load, Outcome
from fedmule.radio.exchange import run_exchange
from fedmule.simulator.event_queue import Environment
from fedmule.simulator.events import Meeting
from fedmule.simulator.vehicle import Vehicle
from fedmule.simulator.world import World

Process = Generator[simpy.Event, object, None]


class Meetings:
    """Finds vehicles that come into each other's range while both are free.

    They stop, unless they follow routes of their own, or drive on, and each sends the other its token. The two do not
    meet again before one of them has made a contact. `cost` is the cost of their exchange, and `enter` is called with
    every meeting that has ended. What a vehicle learns in passing during a meeting is part of it.

    A pair is examined only if the boxes about both ways, from the present to the end of the plans, come within range of
    each other.
    """

    def __init__(
        self,
        env: Environment,
        world: World,
        vehicles: list[Vehicle],
        rule: Literal["stop", "drive_on"],
        cost: Callable[[int, int], Exchange],
        enter: Callable[[Meeting], None],
    ) -> None:
        self._env = env
        self._world = world
        self._vehicles = vehicles
        self._rule = rule
        self._cost = cost
        self._enter = enter
        count = len(vehicles)
        self._news = np.zeros((count, count), dtype=bool)  # pairs one of which has made a contact since they met
        self._low, self._high = np.full((count, 2), -np.inf), np.full((count, 2), np.inf)  # boxes about their ways
        self._range_m = world.hearing.farthest_m
        # Who will come into range when that occurs, if their plans are still these.
        self._expected: dict[simpy.Event, tuple[Vehicle, Vehicle, tuple[int, int]]] = {}
        for vehicle in vehicles:
            vehicle.find_meeting = self.find

    @property
    def expected(self) -> dict[simpy.Event, tuple[int, int]]:
        """The events at which vehicles come into range by their present plans, and which vehicles."""
        return {e: (a.number, b.number) for e, (a, b, plans) in self._expected.items() if plans == (a.plan, b.plan)}

    def expect_at(self, a: int, b: int, at_s: float) -> None:
        """Expect two vehicles to come into range, as they were expected to when a checkpoint was written."""
        self._env.process(self._expect(self._vehicles[a], self._vehicles[b], at_s, exactly=True))

    def state(self) -> tuple[NDArray[Any], ...]:
        """Return what a checkpoint keeps of it, besides the meetings that are expected."""
        return self._news, self._low, self._high

    def restore(self, state: tuple[NDArray[Any], ...]) -> None:
        """Restore what `state` returned."""
        self._news, self._low, self._high = state

    def after_contact(self, vehicle: Vehicle) -> None:
        """Note that this vehicle has something new for all others, and let it meet those it hears on its way."""
        self._news[vehicle.number] = self._news[:, vehicle.number] = True
        self._news[vehicle.number, vehicle.number] = False
        meeting = self.find(vehicle) if vehicle.free else None
        if meeting is not None:
            vehicle.interrupt(meeting)

    def find(self, vehicle: Vehicle) -> simpy.Event | None:
        """Meetings of a vehicle with a new plan: returns one that begins at once, if any; later ones interrupt it."""
        now = self._env.now
        for other in self._near(vehicle, now):
            if not self._may_meet(vehicle, other):
                continue
            until_s = min(vehicle.plan_until_s, other.plan_until_s)
            at_s = self._world.encounters.first_meeting(vehicle, other, now, until_s)
            if at_s is not None and at_s <= now:
                meeting = self._begin(vehicle, other)
                other.interrupt(meeting)
                return meeting
            if at_s is not None:
                self._env.process(self._expect(vehicle, other, at_s))
        return None

    def _near(self, vehicle: Vehicle, now: float) -> list[Vehicle]:
        """Free vehicles with something new for this one, or it for them, that may come into its range, ascending."""
        near = self._news[vehicle.number].copy()
        if self._world.placed:
            low, high = vehicle.way.box(now, max(now, vehicle.plan_until_s))
            self._low[vehicle.number], self._high[vehicle.number] = low, high
            far_m = self._range_m
            near &= ((self._low <= high + far_m) & (self._high >= low - far_m)).all(axis=1)
        others = [self._vehicles[number] for number in np.flatnonzero(near).tolist()]
        return [other for other in others if other.free]

    def _may_meet(self, a: Vehicle, b: Vehicle) -> bool:
        if not (a.free and b.free and self._news[a.number, b.number]):
            return False
        exchange = self._cost(a.number, b.number)
        return bool(exchange.bytes_down[0] + exchange.bytes_up[0])

    def _expect(self, a: Vehicle, b: Vehicle, at_s: float, exactly: bool = False) -> Process:
        """Begin a meeting at the time two vehicles come into range, unless one of them has changed its plan."""
        plans = a.plan, b.plan
        event = self._env.timeout_at(at_s) if exactly else self._env.timeout(at_s - self._env.now)
        self._expected[event] = a, b, plans
        yield event
        del self._expected[event]
        if plans == (a.plan, b.plan) and self._may_meet(a, b):
            meeting = self._begin(a, b)
            for vehicle in (a, b):
                vehicle.interrupt(meeting)

    def _begin(self, a: Vehicle, b: Vehicle) -> simpy.Event:
        a.free = b.free = False
        self._news[a.number, b.number] = self._news[b.number, a.number] = False
        return self._env.process(self._meet(*sorted((a, b), key=lambda vehicle: vehicle.number)))

    def _meet(self, a: Vehicle, b: Vehicle) -> Process:
        began_s, exchange = self._env.now, self._cost(a.number, b.number)
        positions = np.stack([a.xy, b.xy]) if self._world.placed else None
        if self._rule == "stop":
            for vehicle in (a, b):
                if not vehicle.has_route:
                    vehicle.rest()
        outcome = self._outcome(a, b, exchange)
        yield self._env.timeout(outcome.end_s - began_s)
        self._enter(Meeting((a.number, b.number), began_s, positions, exchange, outcome))

    def _outcome(self, a: Vehicle, b: Vehicle, exchange: Exchange) -> Outcome:
        radio, encounters, now = self._world.radio, self._world.encounters, self._env.now
        load = Load(exchange.bytes_down, np.zeros(1), exchange.bytes_up)
        delay = partial(encounters.meeting_delay_s, a, b)
        return run_exchange([encounters.meeting_link(a, b, now)], load, now, radio.setup_s, [delay], radio.duty_cycle)
