"""Snapshots of the world: what a resumed run restores, so that it replays a few contacts and not all of its past.

SimPy's processes cannot be saved while they are in the middle of something. So a snapshot is taken at a moment when
nobody exchanges anything: every vehicle drives or waits, and what is due is a list of times. The contacts between the
last such moment and the checkpoint are replayed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.models.bouncing import Bounds
from fedmule.mobility.models.current import Current
from fedmule.mobility.models.grouped import Grouped
from fedmule.mobility.road_network import RoadNetwork
from fedmule.mobility.schedule import Schedule
from fedmule.mobility.terrain import Terrain
from fedmule.radio.graph import ContactGraph
from fedmule.radio.walks.past import PastContact
from fedmule.simulator.errors import StateError
from fedmule.simulator.runs.state import StateCopy, copy_state, restore_copy

if TYPE_CHECKING:
    from fedmule.simulator.engine import Simulation

UNCHANGING = (Terrain, Bounds, Current, RoadNetwork, Schedule, ContactGraph)
COPYING_SHARE = 0.02  # of host time that copying may take
Start = Callable[[], None]


@dataclass(frozen=True)
class Snapshot:
    """The world and the ledger of a run at a moment between exchanges."""

    now_s: float
    since: tuple[int, int]  # costs and reports in the journal by then
    past: list[list[PastContact]]  # contacts of each vehicle by then
    state: StateCopy


@dataclass
class World:
    """A snapshot and the contacts of the vehicles by then, as stored in a checkpoint; without a tree there is none."""

    now_s: float = 0.0
    since: tuple[int, int] = (0, 0)
    tree: str = ""
    arrays: list[NDArray[Any]] = field(default_factory=list)
    contacts: list[tuple[NDArray[Any], ...]] = field(default_factory=list)  # of each vehicle

    @classmethod
    def pack(cls, snapshot: Snapshot | None) -> World:
        """Store a snapshot."""
        if snapshot is None:
            return cls()
        past = [_pack(contacts) for contacts in snapshot.past]
        return cls(snapshot.now_s, snapshot.since, snapshot.state.tree, snapshot.state.arrays, past)

    def unpack(self) -> Snapshot | None:
        """Return what was stored."""
        if not self.tree:
            return None
        past = [_unpack(*contacts) for contacts in self.contacts]
        return Snapshot(self.now_s, self.since, past, StateCopy(self.tree, self.arrays))


def _pack(contacts: list[PastContact]) -> tuple[NDArray[Any], ...]:
    """Return contacts as arrays: numbers of each, clients of all, and how many clients each has."""
    numbers = np.array([(c.client, c.began_s, c.ended_s, c.in_passing, c.neighbours) for c in contacts], dtype=float)
    asked, delivered = [c.asked for c in contacts], [c.delivered for c in contacts]
    nobody = np.empty(0, dtype=np.int64)
    each = [np.array([len(part) for part in parts], dtype=np.int64) for parts in (asked, delivered)]
    return numbers, np.concatenate([nobody, *asked]), each[0], np.concatenate([nobody, *delivered]), each[1]


def _unpack(
    numbers: NDArray[Any],
    asked: NDArray[Any],
    asked_each: NDArray[Any],
    delivered: NDArray[Any],
    delivered_each: NDArray[Any],
) -> list[PastContact]:
    """Return the contacts that `_pack` has stored."""
    clients = np.split(asked, np.cumsum(asked_each)), np.split(delivered, np.cumsum(delivered_each))
    return [
        PastContact(int(client), began_s, ended_s, bool(in_passing), int(neighbours), asked=a, delivered=d)
        for (client, began_s, ended_s, in_passing, neighbours), a, d in zip(numbers.tolist(), *clients, strict=False)
    ]


class Snapshots:
    """Takes a snapshot between exchanges now and then, for the next checkpoint."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._due_s = 0.0

    def after_event(self) -> None:
        """Take a snapshot if one is due and nobody exchanges anything now."""
        began_s = time.perf_counter()
        if began_s < self._due_s or not _between_exchanges(self._simulation):
            return
        try:
            self._simulation.snapshot = take(self._simulation)
        except StateError:  # such as a part that keeps something unusual: its past must be replayed
            self._due_s = np.inf
            return
        now_s = time.perf_counter()
        self._due_s = now_s + (now_s - began_s) / COPYING_SHARE


def _between_exchanges(simulation: Simulation) -> bool:
    """Whether every vehicle drives or waits, nobody exchanges anything and nothing else happens at this moment."""
    return bool(
        simulation.live
        and all(vehicle.free for vehicle in simulation.vehicles)
        and all(service.idle for service in simulation.services)
        and not simulation.presence.busy.any()
        and simulation.env.peek() > simulation.env.now
        and _ours(simulation)
    )


def _ours(simulation: Simulation) -> bool:
    """Whether movement and walks are the program's own: others may keep what cannot be seen here."""
    movement = simulation.world.positions.trajectories.movement
    parts = [*(movement.models if isinstance(movement, Grouped) else [movement]), *simulation.world.walks]
    return all(type(part).__module__.startswith("fedmule.") for part in parts)


def take(simulation: Simulation) -> Snapshot:
    """Copy the world as it is; nobody may be exchanging anything."""
    positions = simulation.world.positions
    positions.trajectories.forget_paths()  # they would be copied too
    constants = [*positions.constants(), *simulation.ledger.constants()]
    state = copy_state({**_objects(simulation), "plain": _plain(simulation)}, constants, UNCHANGING)
    past = [vehicle.contacts.copy() for vehicle in simulation.vehicles]
    return Snapshot(float(simulation.env.now), simulation.learner.journal.length, past, state)


def _objects(simulation: Simulation) -> dict[str, object]:
    """Return the objects whose attributes change."""
    draws, ledger = [*simulation.draws, *(vehicle.draws for vehicle in simulation.vehicles)], simulation.ledger
    return {**simulation.world.positions.state(), "walks": simulation.world.walks, "draws": draws, "ledger": ledger}


def _plain(simulation: Simulation) -> dict[str, Any]:
    """Return what else changes, as plain values; what is due has a time and a number."""
    due, world, meetings = simulation.env.due, simulation.world, simulation.meetings
    return {
        "true": world.positions.true(np.arange(len(world.positions))),
        "members": world.graph.members,
        "absent": simulation.presence.absent,
        "vehicles": [(vehicle.state(), due(vehicle.waits_for)) for vehicle in simulation.vehicles],
        "services": [(service.state(), due(service.waits_for)) for service in simulation.services],
        "change": due(simulation.change),
        "meetings": [] if meetings is None else [(*ab, *due(event)) for event, ab in meetings.expected.items()],
        "news": () if meetings is None else meetings.state(),
    }


def restore(simulation: Simulation, snapshot: Snapshot) -> list[Start]:
    """Restore the world in a simulation that was built the same way; return how to start its processes, in order.

    Each process begins where it waits for what is due. They start in the order in which that was scheduled, which
    decides between events that occur at once.
    """
    plain: dict[str, Any] = {}
    restore_copy(snapshot.state, {**_objects(simulation), "plain": plain})
    simulation.world.positions.restore(plain["true"])
    simulation.world.graph.admit(plain["members"])
    simulation.presence.absent[:] = plain["absent"]
    starts: list[tuple[float, Start]] = []
    for vehicle, (state, (due_s, number)), contacts in zip(
        simulation.vehicles, plain["vehicles"], snapshot.past, strict=True
    ):
        vehicle.restore(state, contacts, due_s)
        starts.append((number, partial(simulation.start_vehicle, vehicle)))
    for service, (state, (due_s, number)) in zip(simulation.services, plain["services"], strict=True):
        service.restore(state)
        starts.append((number, partial(service.start, due_s)))
    if plain["change"][0] is not None:
        starts.append((plain["change"][1], simulation.start_change))
    elif simulation.world.sites.change_at_s is not None:
        simulation.change_sites()
    if simulation.meetings is not None:
        simulation.meetings.restore(plain["news"])
        for a, b, due_s, number in plain["meetings"]:
            starts.append((number, partial(simulation.meetings.expect_at, a, b, due_s)))
    return [start for _, start in sorted(starts, key=lambda each: each[0])]
