"""When a vehicle has reached the client it drives to: as soon as a link pays, or within a distance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.trajectory import Way, first_within
from fedmule.radio.channel import Load
from fedmule.radio.stopping_point import soonest
from fedmule.simulator.scenario.vehicle import Vehicle as VehicleKeys
from fedmule.simulator.world import World

FloatArray = NDArray[np.float64]
LoadOf = Callable[[int, int], Load]  # what an exchange of a vehicle with a client would cost now

INSIDE = 1 - 1e-9  # of approach_m: stop just inside, so that rounding does not leave the vehicle outside
EDGE_S = 0.1  # shortest drive towards a client at the edge of its range
REAIM_S = 5.0  # how often a vehicle aims again at a moving client that it hears


@dataclass(frozen=True)
class Plan:
    """What a vehicle does next on its way to a client."""

    way: Way
    until_s: float
    reaches: bool = False  # it reaches the client then
    gives_up: bool = False  # or gives it up


class Reaching(Protocol):
    """A rule of how to reach a client."""

    def plan(self, client: int, now: float, here: FloatArray, deadline: float) -> Plan:
        """Plan the next part of the way to a client, which is to be reached or given up by the deadline."""
        ...

    def is_at(self, client: int, now: float, here: FloatArray) -> bool:
        """Whether a vehicle that stands here has reached a client."""
        ...

    def state(self) -> tuple[Any, ...]:
        """Return what it remembers, for a checkpoint."""
        ...

    def restore(self, state: tuple[Any, ...]) -> None:
        """Restore what `state` returned."""
        ...


def reaching(keys: VehicleKeys, world: World, vehicle: int, load_of: LoadOf) -> Reaching:
    """The rule that the keys name."""
    aiming = Aiming(world, vehicle, ahead=keys.search == "ahead")
    if keys.contact == "approach":
        return ByDistance(world, aiming, keys)
    return ByLink(world, aiming, keys, vehicle, load_of)


class Aiming:
    """Where a vehicle takes a client to be, and its way there."""

    def __init__(self, world: World, vehicle: int, ahead: bool) -> None:
        self._positions = world.positions
        self._driving = world.driving[vehicle]
        self._ahead = ahead

    def way_to_known(self, client: int, now: float, here: FloatArray) -> Way:
        """The way to where a client is by its last report, or by its last two if the vehicle aims ahead."""
        known, velocity = self._positions.known(np.array([client]))[0], None
        if self._ahead:
            velocity = self._positions.known_velocity(client)
        if velocity is None:
            return self.way_to(known, now, here)
        age, aim = now - self._positions.last_report_s(client), known
        for _ in range(3):  # the longer the way, the farther it will have gone
            aim = known + velocity * (age + self.way_to(aim, now, here).times[-1] - now)
        return self.way_to(aim, now, here)

    def way_to(self, aim: FloatArray, now: float, here: FloatArray) -> Way:
        """The way to a position, or as near to it as possible."""
        seconds, route = self._driving.way(here, aim)
        return Way(now + seconds, route)


class ByDistance:
    """A client is reached within `approach_m` of it, whoever hears whom on the way."""

    def __init__(self, world: World, aiming: Aiming, keys: VehicleKeys) -> None:
        self._positions = world.positions
        self._aiming = aiming
        self._keys = keys

    def plan(self, client: int, now: float, here: FloatArray, deadline: float) -> Plan:
        """Drive to where the client is by its reports, until the next one or until within `approach_m`."""
        way = self._aiming.way_to_known(client, now, here)
        until = min(self._positions.next_report_s(client, now), deadline)
        if self._keys.search == "give_up":
            until = min(until, float(way.times[-1]))
        met = first_within(
            way.times,
            way.positions,
            *self._positions.trajectories.path(client, until),
            distance_m=self._keys.approach_m * INSIDE,
            start=now,
            end=until,
        )
        if met is not None:
            return Plan(way, met, reaches=True)
        return Plan(way, until, gives_up=self._keys.search == "give_up" and until >= way.times[-1])

    def is_at(self, client: int, now: float, here: FloatArray) -> bool:
        """Whether the client is within `approach_m`."""
        return bool(np.hypot(*(self._positions.true(np.array([client]))[0] - here)) <= self._keys.approach_m)

    def state(self) -> tuple[Any, ...]:
        """Nothing is remembered."""
        return ()

    def restore(self, state: tuple[Any, ...]) -> None:
        """Nothing is to be restored."""


class ByLink:
    """A client is reached where the exchange with it is expected to end soonest, once the vehicle hears it.

    From then on the vehicle knows where the client is. It weighs driving nearer against sending more slowly, by the
    rates along its way to where the client is now, and stops within `approach_m` at the latest.
    """

    def __init__(self, world: World, aiming: Aiming, keys: VehicleKeys, vehicle: int, load_of: LoadOf) -> None:
        self._hearing = world.hearing
        self._positions = world.positions
        self._aiming = aiming
        self._keys = keys
        self._vehicle = vehicle
        self._load_of = load_of
        self._last_heard: tuple[int, float, FloatArray] = (-1, -1.0, np.zeros(2))  # client, when and where it was

    def plan(self, client: int, now: float, here: FloatArray, deadline: float) -> Plan:
        """Drive to where the client is thought to be until it is heard; then to where it is best served."""
        if self.is_at(client, now, here):
            return self._plan_stop(client, now, here, deadline)
        way = self._way(client, now, here)
        until = max(now, min(self._positions.next_report_s(client, now), deadline))
        heard = self._hearing.first_heard(way, client, now, until)
        if heard is not None:
            heard = max(
                heard, now + EDGE_S
            )  # at the very edge it must drive a little to hear the client standing still
        arrived = float(way.times[-1])
        if heard is None and self._keys.search == "give_up" and arrived <= until:
            return Plan(way, arrived, gives_up=True)
        return Plan(way, until if heard is None else heard)

    def is_at(self, client: int, now: float, here: FloatArray) -> bool:
        """Whether the client is heard."""
        return self._hearing.first_heard(Way.standing(here, now), client, now, now) is not None

    def state(self) -> tuple[Any, ...]:
        """Return the client last heard, when and where."""
        return self._last_heard

    def restore(self, state: tuple[Any, ...]) -> None:
        """Restore the client last heard."""
        self._last_heard = state[0], state[1], state[2]

    def _way(self, client: int, now: float, here: FloatArray) -> Way:
        """The way to where it was when last heard, or to where it is by its reports if they are more recent."""
        who, when, where = self._last_heard
        if who == client and when > self._positions.last_report_s(client):
            return self._aiming.way_to(where, now, here)
        return self._aiming.way_to_known(client, now, here)

    def _plan_stop(self, client: int, now: float, here: FloatArray, deadline: float) -> Plan:
        there = self._positions.true(np.array([client]))[0]
        self._last_heard = client, now, there
        way = self._aiming.way_to(there, now, here)
        hearing, target, arrived = self._hearing, Way.standing(there, now), float(way.times[-1])
        within_m = self._keys.approach_m * INSIDE
        near = first_within(way.times, way.positions, target.times, target.positions, within_m, now, arrived)
        link, load = hearing.expected_link(way, client, there, now), self._load_of(self._vehicle, client)
        last_s = min(deadline, arrived if near is None else near)
        stop_s = soonest(link, load, hearing.radio.duty_cycle, now, last_s)
        if stop_s > now + REAIM_S and self._moves(client, now, stop_s):
            return Plan(way, min(now + REAIM_S, deadline))
        return Plan(way, stop_s, reaches=True)

    def _moves(self, client: int, start_s: float, end_s: float) -> bool:
        times, positions = self._positions.trajectories.path(client, end_s)
        ahead = positions[np.searchsorted(times, start_s, side="right") - 1 :]
        return bool((ahead != ahead[0]).any())
