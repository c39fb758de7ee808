"""Rounds of an ideal server, which reaches clients wherever they are."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import numpy as np
import simpy

from fedmule.learning.algorithms.base import Contact
from fedmule.radio.exchange import ideal_exchange
from fedmule.simulator.events import Visit

if TYPE_CHECKING:
    from fedmule.simulator.engine import Simulation


def rounds(simulation: Simulation) -> Generator[simpy.Event, object, None]:
    """Reach random clients round after round, until the run is over; only computing takes time."""
    env, wanted = simulation.env, simulation.scenario.learning.active
    while not simulation.ledger.over(env.now):
        simulation.admit()
        began_s, there = env.now, np.flatnonzero(simulation.presence.present(env.now))
        if not there.size:
            yield from simulation.wait_for_anybody(simulation.vehicles[0])
            continue
        count = min(wanted, len(there)) if isinstance(wanted, int) else len(there)
        active = np.sort(simulation.draws[0].choice(there, count, replace=False))
        progress = simulation.ledger.progress(began_s)
        exchange = simulation.learner.begin(0, active, progress, began_s)
        outcome = ideal_exchange(simulation.load(active, exchange), began_s)
        yield env.timeout(outcome.end_s - began_s)
        contact = Contact(active, len(there), progress, ended_s=env.now)
        update = simulation.learner.update(0, contact)
        simulation.ledger.visit(Visit(contact, active, exchange, outcome, update, began_s))
        simulation.after_contact()
