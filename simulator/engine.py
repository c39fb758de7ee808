"""The event loop: vehicles drive from client to client, and at every contact they learn."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial

import numpy as np
import simpy
import torch
from numpy.typing import NDArray

from fedmule.learning.algorithms.base import Contact, Exchange
from fedmule.learning.journal import Journal
from fedmule.learning.learner import Learner
from fedmule.mobility.models.movement import Waypoints
from fedmule.radio.exchange import Load, Outcome, ideal_exchange, run_exchange
from fedmule.radio.link import delay_at_s, link_over_time, linked
from fedmule.simulator.build import build_learner
from fedmule.simulator.events import Meeting, Visit
from fedmule.simulator.ledger import Ledger
from fedmule.simulator.meetings import Meetings
from fedmule.simulator.phase import Phase, Replay, Watch
from fedmule.simulator.runs.columns import Summary
from fedmule.simulator.runs.folder import NoLog
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.streams import Streams
from fedmule.simulator.vehicle import Vehicle
from fedmule.simulator.world import build_world

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
Process = Generator[simpy.Event, object, None]


class Simulation:
    """One run of a scenario: build it, then `run` it once."""

    def __init__(self, scenario: Scenario, plugins: dict[str, object] | None = None) -> None:
        torch.set_num_threads(1)  # the same bits on every machine, and the fastest at these sizes
        self.scenario = scenario
        self._streams = Streams(scenario.seed)
        self.world = build_world(scenario, self._streams, plugins or {})
        self._phase = Phase(scenario, build_learner(scenario, self._streams, plugins or {}, self.world.sites))
        self._active_draws = [self._own_stream("active", v) for v in range(scenario.vehicle.count)]
        self._everyone = self.world.graph.members  # whom the vehicles can reach, late clients included
        self._absent = self.world.late.copy()
        self.world.graph.admit(self._everyone & ~self._absent)
        self._busy = np.zeros(len(self._absent), dtype=bool)  # who is in a contact
        self._until_free: dict[int, simpy.Event] = {}  # of busy clients that another vehicle waits for
        self._over = False  # contacts that end at the same moment as the last visit do not count any more
        self.env = simpy.Environment()

    @property
    def learner(self) -> Learner:
        """The learner of the present phase."""
        return self._phase.learner

    @property
    def ledger(self) -> Ledger:
        """The ledger of the present phase."""
        return self._phase.ledger

    def replay(self, journal: Journal, visits: int, restore: Callable[[Phase], None]) -> None:
        """Before the start: replay these visits without learning or logging, then `restore` the state after them."""
        live = self._phase
        self._phase = Replay(live, journal, visits, lambda: restore(live))

    def interrupt(self) -> None:
        """End the run after the present visit; while it replays its past, at once."""
        self._phase.interrupt()

    def start(self, log: NoLog | None = None, watch: Watch | None = None) -> simpy.Event:
        """Start the vehicles, or the rounds of an ideal server; returns the event at which the run is over.

        `watch` is called after every visit.
        """
        self._phase.start(log or NoLog(), watch)
        self.world.positions.trajectories.record(self._log_clients)
        self.vehicles = [self._vehicle(v) for v in range(self.scenario.vehicle.count)]
        self.meetings = self._meetings()
        if self.scenario.learning.server == "vehicle":
            lives = [self.env.process(self._drive(vehicle)) for vehicle in self.vehicles]
            for vehicle, life in zip(self.vehicles, lives, strict=True):
                vehicle.interrupt = life.interrupt
        else:
            lives = [self.env.process(self._rounds())]
        if self.world.sites.change_at_s is not None:
            self.env.process(self._change_sites(self.world.sites.change_at_s))
        limit = self.scenario.stop.sim_time_s
        over = lives[0] if len(lives) == 1 else simpy.AnyOf(self.env, lives)  # over for one is over for all
        return over if limit is None else over | self.env.timeout(limit)

    def run(self, log: NoLog | None = None, watch: Watch | None = None) -> Summary:
        """Run to the end and return the summary."""
        self.env.run(until=self.start(log, watch))
        for vehicle in self.vehicles:
            vehicle.rest()
        self.world.positions.trajectories.finish(self.env.now)
        summary = self.ledger.finish(self.env.now)
        self._phase.log.close(summary)
        return summary

    # --- the life of a vehicle -----------------------------------------------------------------------------

    def _drive(self, vehicle: Vehicle) -> Process:
        """Choose a client, drive to it, exchange; until the run is over."""
        while not self.ledger.over(self.env.now):
            self._admit()
            if not self.world.graph.reachable.size:
                yield from self._wait_for_anybody(vehicle)
                continue
            target = vehicle.choose()
            if (yield from self._reach(vehicle, target)):
                yield from self._contact(vehicle, target)
            else:
                self.ledger.not_reached(vehicle.number)
        self._over = True

    def _reach(self, vehicle: Vehicle, target: int) -> Generator[simpy.Event, object, bool]:
        """Drive to a client and wait there while another vehicle serves it; False if the vehicle had to give up."""
        while (yield from vehicle.chase(target)):
            if not self._busy[target]:
                return True
            while self._busy[target]:
                yield from vehicle.wait(self._until_free.setdefault(target, self.env.event()))
            if vehicle.is_at(target):  # a vehicle that has waited goes first
                return True
        return False

    def _contact(self, vehicle: Vehicle, target: int) -> Process:
        """Stand still and exchange with the active clients; those whose exchange gets through learn."""
        positions = self.world.positions
        arrived_s, here = self.env.now, vehicle.xy
        positions.advance(arrived_s)
        neighbours = self._neighbourhood(target, here)
        active = self._choose(target, neighbours, self._active_draws[vehicle.number])
        progress = self.ledger.progress(arrived_s)
        exchange = self.learner.exchange_cost(active, progress)
        outcome = self._exchange(active, exchange, here)
        self._busy[active] = True
        yield self.env.timeout(outcome.end_s - arrived_s)
        if self._over:
            return

        self._release(active)
        vehicle.client = target
        contact = Contact(active[outcome.delivered], len(neighbours), progress, target, neighbours)
        update = self.learner.update(vehicle.number, contact)
        self.ledger.visit(Visit(contact, active, exchange, outcome, update, arrived_s, vehicle.number, here))
        if self.meetings is not None:
            self.meetings.after_contact(vehicle)
        positions.after_visit(self.ledger.visits, self.env.now)
        positions.advance(self.env.now)
        every = self.scenario.log.graph_every
        if every and self.ledger.visits % every == 0:
            self._phase.log.graph(self.ledger.visits, self.env.now, self.world.graph.logged())
        self._phase = self._phase.after_visit()

    def _meeting(self, meeting: Meeting) -> None:
        """Two vehicles have met: if everything got through, they merge what they carry."""
        if self._over:
            return
        if meeting.delivered:
            self.learner.meet(*meeting.vehicles)
        self.ledger.meeting(meeting)

    def _rounds(self) -> Process:
        """Rounds of an ideal server: it reaches random clients wherever they are; only computing takes time."""
        while not self.ledger.over(self.env.now):
            self._admit()
            began_s, there = self.env.now, np.flatnonzero(self._present())
            if not there.size:
                yield from self._wait_for_anybody(self.vehicles[0])
                continue
            wanted = self.scenario.learning.active
            count = min(wanted, len(there)) if isinstance(wanted, int) else len(there)
            active = np.sort(self._active_draws[0].choice(there, count, replace=False))
            progress = self.ledger.progress(began_s)
            exchange = self.learner.exchange_cost(active, progress)
            outcome = ideal_exchange(self._load(exchange), began_s)
            yield self.env.timeout(outcome.end_s - began_s)
            contact = Contact(active, len(there), progress)
            self.ledger.visit(Visit(contact, active, exchange, outcome, self.learner.update(0, contact), began_s))
            self._phase = self._phase.after_visit()

    def _change_sites(self, at_s: float) -> Process:
        """At that time some clients move to other sites, and their data become like those there."""
        yield self.env.timeout(at_s)
        self.learner.move(self.world.sites.movers, self.world.sites.to, at_s)

    # --- its parts -----------------------------------------------------------------------------------------

    def _own_stream(self, name: str, vehicle: int) -> np.random.Generator:
        """A vehicle's random stream; the first vehicle draws as if it were alone."""
        return self._streams.generator(f"{name} {vehicle}" if vehicle else name)

    def _vehicle(self, number: int) -> Vehicle:
        draws = self._own_stream("walk", number)
        return Vehicle(self.env, self.world, self.scenario.vehicle, self._log_vehicle, number, draws)

    def _log_vehicle(self, vehicle: int, times: FloatArray, positions: FloatArray) -> None:
        self._phase.log.vehicle_track(vehicle, times, positions)

    def _log_clients(self, waypoints: Waypoints) -> None:
        self._phase.log.client_track(waypoints)

    def _meetings(self) -> Meetings | None:
        rule = self.scenario.vehicle.meeting
        if rule == "none" or len(self.vehicles) == 1:
            return None

        def cost(a: int, b: int) -> Exchange:
            return self.learner.meeting_cost(a, b, self.ledger.progress(self.env.now))

        return Meetings(self.env, self.world, self.vehicles, rule, cost, self._meeting)

    # --- steps of it ---------------------------------------------------------------------------------------

    def _admit(self) -> None:
        """Let late clients join when their time has come, and note who is there now."""
        if self._absent.any() and self.ledger.progress(self.env.now) >= self.scenario.clients.late_at:
            late = np.flatnonzero(self._absent)
            self._absent[:] = False
            self.world.graph.admit(self._everyone)
            for client in late.tolist():
                self.learner.introduce(client, self.world.graph.neighbours(client))
            self.ledger.joined(late)
        if self.world.positions.there(self.env.now) is not None:
            self.world.graph.admit(self._everyone & self._present())

    def _present(self) -> NDArray[np.bool_]:
        """Which clients [n] are there now."""
        there = self.world.positions.there(self.env.now)
        return ~self._absent if there is None else ~self._absent & there

    def _wait_for_anybody(self, vehicle: Vehicle) -> Process:
        """Wait until a client comes, where none is there; if none ever does the run is over."""
        comes_s = self.world.positions.trajectories.movement.next_arrival_s(self.env.now)
        if np.isfinite(comes_s):
            yield from vehicle.wait(self.env.timeout(comes_s - self.env.now), comes_s)
        else:
            self.ledger.nobody_comes()

    def _release(self, clients: IntArray) -> None:
        """End these clients' contact: other vehicles may serve them."""
        self._busy[clients] = False
        for client in self._until_free.keys() & set(clients.tolist()):
            self._until_free.pop(client).succeed()

    def _neighbourhood(self, target: int, here: FloatArray) -> IntArray:
        """The visited client and every client that hears the vehicle where it stands, ascending."""
        near = self.world.positions.within(here, self.world.radio.farthest_m * (1 + 1e-9))
        near = near[~self._absent[near]]
        heard = near[linked(self.world.radio, self.world.obstruction, here, self.world.positions.true(near))]
        return np.union1d(heard, [target])

    def _choose(self, target: int, neighbours: IntArray, draws: np.random.Generator) -> IntArray:
        """The active clients: the visited one, alone or with some or all neighbours, but nobody who is busy."""
        active, neighbours = self.scenario.learning.active, neighbours[~self._busy[neighbours]]
        if active == "all":
            return neighbours
        others = neighbours[neighbours != target]
        more = 0 if active == "visited" else min(active - 1, len(others))
        return np.sort(np.append(draws.choice(others, more, replace=False), target)).astype(np.int64)

    def _exchange(self, active: IntArray, exchange: Exchange, here: FloatArray) -> Outcome:
        radio, ways, now = self.world.radio, self.world.positions.trajectories, self.env.now
        clients = active.tolist()
        links = [link_over_time(radio, self.world.obstruction, ways, here, client, now) for client in clients]
        delays = [partial(delay_at_s, radio, ways, here, client) for client in clients]
        return run_exchange(links, self._load(exchange), now, radio.setup_s, delays, radio.duty_cycle)

    def _load(self, exchange: Exchange) -> Load:
        compute_s = exchange.flops / self.scenario.clients.compute_flops_per_s
        return Load(exchange.bytes_down, compute_s, exchange.bytes_up, exchange.broadcast)
