"""The vehicle: chases the client it wants to visit, round what stops it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from mobility.trajectory import first_within, place_at
from simulator.scenario import Vehicle as VehicleKeys
from simulator.world import World

TOUCH = 1 - 1e-9  # stop a hair inside approach_m, so that rounding does not leave it outside

TrackLog = Callable[[NDArray[np.float64], NDArray[np.float64]], None]


class Vehicle:
    """Knows clients' places only from their reports; stands still unless it chases."""

    def __init__(self, env: simpy.Environment, world: World, keys: VehicleKeys, log: TrackLog) -> None:
        self._env = env
        self._world = world
        self._keys = keys
        self._log = log
        self._times = np.array([env.now])  # the way it is on: times [k] and places [k,2]; it rests at the end
        self._way = world.start[None]
        log(self._times, self._way)

    @property
    def xy(self) -> NDArray[np.float64]:
        """Where it is now."""
        return place_at(self._times, self._way, np.array([self._env.now]))[0]

    def chase(self, client: int) -> Generator[Any, Any, bool]:
        """Drive to within approach_m of a client, re-aiming at every report; False if it had to give up."""
        places, keys = self._world.places, self._keys
        deadline = self._env.now + keys.give_up_s
        while True:
            now = self._env.now
            there = places.there(now)
            if there is not None and not there[client]:
                return False
            places.advance(now)
            aim = places.known(np.array([client]))[0]
            seconds, self._way = self._world.driving.way(self.xy, aim)
            self._times = now + seconds
            until = min(places.next_report_s, deadline)
            met = first_within(
                self._times,
                self._way,
                *places.trajectories.path(client, until),
                distance_m=keys.approach_m * TOUCH,
                start=now,
                end=until,
            )
            yield self._env.timeout((until if met is None else met) - now)
            self.rest()
            if met is not None:
                return True
            if self._env.now >= deadline:
                return False

    def rest(self) -> None:
        """Stop here, and log the way that led here."""
        passed = self._times < self._env.now
        times = np.append(self._times[passed], self._env.now)
        places = np.concatenate([self._way[passed], self.xy[None]])
        self._log(times, places)
        self._times, self._way = times[-1:], places[-1:]
