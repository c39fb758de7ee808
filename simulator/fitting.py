"""How many local steps a client has time for in a contact in passing, before the link is expected to break."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedmule.mobility.trajectory import Way
from fedmule.radio.channel import Load
from fedmule.radio.exchange import run_exchange
from fedmule.radio.link import link_between
from fedmule.simulator.vehicle import Vehicle
from fedmule.simulator.world import World

STRAIGHT_ON_S = 600.0  # for how long a client is taken to go straight on


def most_that_fit(gets_through: Callable[[int], bool], most: int) -> int:
    """The largest number from 1 to `most` that gets through, if fewer do so too; 1 if none does."""
    if gets_through(most):
        return most
    low, high = 1, most  # `high` does not; 1 is taken in any case
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if gets_through(middle) else (low, middle)
    return low


def steps_that_fit(
    world: World, vehicle: Vehicle, client: int, most: int, load_of: Callable[[int], Load], now: float
) -> int:
    """Local steps, 1 to `most`, whose exchange gets through as far as vehicle and client can tell now.

    They expect the vehicle to keep to its way, the client to go straight on at its present pace, and the channel to
    be theirs alone. `load_of` is the load of an exchange with that many steps.
    """
    client_way, hearing = straight_on(world, client, now), world.hearing
    gap_m = np.hypot(*(client_way.at(now) - vehicle.way.at(now)))
    delay_s = float(hearing.radio.delay_s(np.array([gap_m]))[0])
    loss_db = float(hearing.extra_loss_db[client])

    def gets_through(steps: int) -> bool:
        link = link_between(hearing.radio, hearing.obstruction, vehicle.way, client_way, now, loss_db)
        radio = hearing.radio
        outcome = run_exchange([link], load_of(steps), now, radio.setup_s, [lambda t: delay_s], radio.duty_cycle)
        return bool(outcome.delivered[0])

    return most_that_fit(gets_through, most)


def straight_on(world: World, client: int, now: float) -> Way:
    """The way of a client that keeps to its present direction and pace."""
    times, positions = world.positions.trajectories.path(client, now)
    leg = min(int(np.searchsorted(times, now, side="right")) - 1, len(times) - 2)
    span_s = times[leg + 1] - times[leg]
    here = world.positions.true(np.array([client]))[0]
    if not 0 < span_s < np.inf or (positions[leg + 1] == positions[leg]).all():
        return Way.standing(here, now)
    pace = (positions[leg + 1] - positions[leg]) / span_s
    return Way(np.array([now, now + STRAIGHT_ON_S]), np.stack([here, here + STRAIGHT_ON_S * pace]))
