"""Contacts in passing: exact times against a time-stepped simulation, and what must hold in every run."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedmule.mobility.models.movement import Waypoints
from fedmule.mobility.trajectory import position_at
from fedmule.radio.link import rates_bps
from fedmule.simulator.engine import Simulation
from fedmule.simulator.runs.columns import ContactRow
from fedmule.simulator.runs.folder import NoLog
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.world import World

FloatArray = NDArray[np.float64]

STEP_S = 0.05  # of the time-stepped simulation
END_S = 60.0


class Memory(NoLog):
    """Keeps contacts and tracks."""

    def __init__(self) -> None:
        self.rows: list[ContactRow] = []
        self.ways: dict[Any, list[tuple[float, float, float]]] = defaultdict(list)

    def contact(self, row: ContactRow) -> None:
        self.rows.append(row)

    def client_track(self, waypoints: Waypoints) -> None:
        for client, t, (x, y) in zip(waypoints.client.tolist(), waypoints.t.tolist(), waypoints.xy, strict=True):
            self.ways[client].append((t, x, y))

    def vehicle_track(self, vehicle: int, times: FloatArray, positions: FloatArray) -> None:
        self.ways["vehicle"] += [(t, x, y) for t, (x, y) in zip(times, positions, strict=True)]

    def at(self, node: Any, times: FloatArray) -> FloatArray:
        way = np.array(self.ways[node])
        return position_at(way[:, 0], way[:, 1:], times)


def random_world(seed: int) -> Scenario:
    """A vehicle on a random route among clients that stand or walk, with walls that weaken the radio."""
    random = np.random.default_rng(seed)
    size = 160.0

    def block() -> dict[str, Any]:
        (x, y), (w, h) = random.uniform(10, 120, 2), random.uniform(5, 30, 2)
        corners = [[x, y], [x + w, y], [x + w, y + h], [x, y + h]]
        return {"polygon": corners, "stops_movement": False, "radio_loss_db": float(random.choice([3.0, 10.0, 25.0]))}

    radio: dict[str, Any] = {"kind": "zigbee", "range_m": float(random.uniform(25, 60))}
    if random.random() < 0.3:
        radio = {"kind": "disc", "range_m": float(random.uniform(15, 50)), "rate_mbps": 0.2, "setup_s": 0.5}
    mobility = random.choice(np.array(["static", "waypoint", "gauss_markov", "random_walk"]))
    points = random.uniform(5, size - 5, (int(random.integers(2, 6)), 2)).tolist()
    stops = [{"at": points[0], "wait_s": float(random.uniform(1, 8))}] if random.random() < 0.5 else []
    return Scenario.model_validate(
        {
            "seed": seed,
            "terrain": {"size_m": [size, size], "obstacles": [block() for _ in range(int(random.integers(0, 4)))]},
            "vehicle": {
                "speed_mps": float(random.uniform(4, 14)),
                "route": {"points": points, "end": str(random.choice(["closed", "there_and_back"])), "stops": stops},
            },
            "clients": {
                "count": int(random.integers(2, 8)),
                "mobility": str(mobility),
                "compute_flops_per_s": float(random.uniform(0.5e6, 1e7)),
            },
            "radio": radio,
            "learning": {
                "dataset": {"features": 200, "samples": [10, 12]}, "local_steps": 2, "evaluate_contacts": False,
                "evaluate_every": 1000, "open_at": 1.0,
                "algorithm": "fedavg" if random.random() < 0.3 else {"kind": "rwsadmm", "try_at": 0.0},
            },
            "stop": {"sim_time_s": END_S},
            "log": {"graph_every": 0},
        }
    )  # fmt: skip


@dataclass
class Stepped:
    """An exchange of the time-stepped simulation."""

    client: int
    began_s: float
    left: list[float]  # setup s, bits down, delay s, compute s, bits up, delay s
    step: int = 0
    end_s: float = np.inf
    delivered: bool = False


def stepped(world: World, memory: Memory, load: tuple[float, float, float], step_s: float) -> list[Stepped]:
    """All exchanges, by going through time in small steps: nothing but rates at positions, and equal shares."""
    times = np.arange(0.0, END_S, step_s)
    n, radio = len(world.positions), world.radio
    vehicle = memory.at("vehicle", times)
    rates, delays = np.zeros((len(times), n)), np.zeros((len(times), n))
    for i in range(n):
        there = memory.at(i, times)
        gap = np.hypot(*(there - vehicle).T)
        rates[:, i] = rates_bps(radio, gap, world.obstruction.loss_db(vehicle, there) + radio.shadow_db(vehicle, there))
        delays[:, i] = radio.delay_s(gap)
    setup_s, (bits_down, compute_s, bits_up) = radio.setup_s, load
    linked, under_way, ended = np.zeros(n, dtype=bool), {}, []
    for k, t in enumerate(times.tolist()):
        for i in np.flatnonzero((rates[k] > 0) & ~linked).tolist():
            under_way[i] = Stepped(i, t, [setup_s, bits_down, 0.0, compute_s, bits_up, 0.0])
        linked = rates[k] > 0
        for i in [i for i in under_way if not linked[i]]:
            under_way[i].end_s = t
            ended.append(under_way.pop(i))
        sending = sum(e.step in (1, 4) for e in under_way.values())
        for i, e in list(under_way.items()):
            time_left = step_s
            while time_left > 0 and e.step < 6:
                speed = rates[k, i] / max(sending, 1) if e.step in (1, 4) else 1.0
                needed = e.left[e.step] / speed
                if needed > time_left:
                    e.left[e.step] -= speed * time_left
                    break
                time_left -= needed
                if e.step in (1, 4):
                    e.left[e.step + 1] = float(delays[k, i])
                e.step += 1
            if e.step == 6:
                e.end_s, e.delivered = t + step_s - time_left, True
                ended.append(under_way.pop(i))
    return ended


@pytest.mark.parametrize("hundred", range(4))
def test_the_same_exchanges_as_a_time_stepped_simulation(hundred: int) -> None:
    """200 random worlds: the same delivered sets, and times within the step."""
    compared = 0
    for seed in range(50 * hundred, 50 * (hundred + 1)):
        scenario, memory = random_world(seed), Memory()
        simulation = Simulation(scenario)
        begun: list[Any] = []
        begin = simulation.learner.begin
        simulation.learner.begin = lambda *a, begin=begin, into=begun: into.append(begin(*a)) or into[-1]  # type: ignore[method-assign,func-returns-value]
        simulation.run(memory)
        if not begun:
            continue
        cost = begun[0]
        compute_s = float(cost.flops[0] / scenario.clients.compute_flops_per_s)
        load = 8.0 * float(cost.bytes_down[0]), compute_s, 8.0 * float(cost.bytes_up[0])
        assert all(row.in_passing for row in memory.rows)
        try:
            compared += compare(memory.rows, stepped(simulation.world, memory, load, STEP_S / 5), seed)
        except AssertionError:  # the shares of the channel change within a step: the finer it is, the nearer it comes
            compared += compare(memory.rows, stepped(simulation.world, memory, load, STEP_S / 100), seed)
    assert compared > 100


def compare(rows: list[ContactRow], expected: list[Stepped], seed: int) -> int:
    """Check all exchanges but those that last no longer than the step; returns how many ended alike."""
    left = defaultdict(list)
    for exchange in expected:
        left[exchange.client].append(exchange)
    checked = 0
    for row in rows:
        began_s, end_s = row.sim_time_s - row.contact_s, row.sim_time_s
        found = [e for e in left[row.client or 0] if abs(e.began_s - began_s) <= STEP_S]
        if not found:
            assert row.contact_s <= STEP_S, f"seed {seed}: {row} has no counterpart"
            continue
        (twin,) = found
        left[row.client or 0].remove(twin)
        if bool(row.delivered) == twin.delivered:
            assert abs(twin.end_s - end_s) <= STEP_S, f"seed {seed}: {row} ended at {end_s}, not {twin.end_s}"
            checked += 1
        else:  # a link that breaks as the last byte arrives
            assert abs(twin.end_s - end_s) <= STEP_S, f"seed {seed}: {row} against {twin}"
    for client, missing in left.items():
        for e in missing:
            assert e.end_s - e.began_s <= STEP_S, f"seed {seed}: client {client}: {e} did not take place"
    return checked


# --- what holds in every run ---------------------------------------------------------------------------------------


def busy_world(seed: int, vehicles: int, **learning: Any) -> Scenario:
    """Many clients near each other, served at visits and in passing by several vehicles."""
    return Scenario.model_validate(
        {
            "seed": seed,
            "terrain": {"size_m": [250, 250]},
            "vehicle": {"count": vehicles, "speed_mps": 12.0, "meeting": "none"},
            "clients": {"count": 12, "mobility": "waypoint", "compute_flops_per_s": 2e6},
            "radio": {"kind": "zigbee", "range_m": 50.0},
            "learning": {
                "dataset": {"features": 80, "samples": [10, 12]}, "evaluate_every": 50, "open_at": 1.0, **learning,
            },
            "stop": {"visits": 40},
            "log": {"graph_every": 0},
        }
    )  # fmt: skip


@pytest.mark.parametrize("vehicles", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_nobody_is_in_two_exchanges_at_once_and_counts_add_up(seed: int, vehicles: int) -> None:
    memory, simulation = Memory(), Simulation(busy_world(seed, vehicles))
    summary = simulation.run(memory)
    spans = defaultdict(list)
    for row in memory.rows:
        for client in row.active_ids.tolist():
            spans[client].append((row.sim_time_s - row.contact_s, row.sim_time_s))
    for times in spans.values():
        times.sort()
        assert all(end <= begin + 1e-9 for (_, end), (begin, _) in pairwise(times))
    passing = [row for row in memory.rows if row.in_passing]
    assert passing
    assert len(passing) < len(memory.rows)
    assert [row.contact for row in memory.rows] == list(range(1, len(memory.rows) + 1))
    assert summary["visits"] == 40 == len(memory.rows) - len(passing)
    assert summary["contacts"] == len(memory.rows)
    for name in ("bytes_down", "bytes_up", "active", "delivered", "gradient_steps"):
        assert summary[name] == sum(getattr(row, name) for row in memory.rows)  # type: ignore[literal-required]
    assert all(row.active == 1 and row.travel_s == 0 and row.missed == 0 for row in passing)
    assert simulation.learner.participations.sum() == summary["delivered"]


@pytest.mark.parametrize("seed", range(3))
def test_the_token_is_the_mean_of_what_was_delivered(seed: int) -> None:
    """Contributions arrive in another order than that in which they were asked for."""
    world = busy_world(seed, 1)
    slack = world.learning.algorithm.model_copy(update={"variant": "slack"})
    simulation = Simulation(
        world.model_copy(update={"learning": world.learning.model_copy(update={"algorithm": slack})})
    )
    simulation.run()
    algorithm: Any = simulation.learner.algorithm
    mean = algorithm.contributions[algorithm.seen].mean(dim=0)
    assert np.allclose(algorithm.token.numpy(), mean.numpy(), atol=1e-5)


def test_without_in_passing_there_are_visits_only() -> None:
    scenario = busy_world(0, 1)
    keys = scenario.vehicle.model_copy(update={"in_passing": False})
    memory = Memory()
    Simulation(scenario.model_copy(update={"vehicle": keys})).run(memory)
    assert len(memory.rows) == 40
    assert not any(row.in_passing for row in memory.rows)


def test_a_vehicle_serves_in_passing_once_per_contact() -> None:
    """A client beside the road is served once on each pass, at the moment it is heard."""
    scenario = Scenario.model_validate(
        {
            "terrain": {"size_m": [400, 100]},
            "vehicle": {"speed_mps": 10.0, "route": {"points": [[10, 50], [390, 50]], "end": "there_and_back"}},
            "clients": {"count": 1, "mobility": {"kind": "static", "positions": [[200, 50]]}},
            "radio": {"kind": "disc", "range_m": 40.0, "setup_s": 1.0},
            "learning": {"dataset": {"samples": [10, 12]}},
            "stop": {"sim_time_s": 3 * 76.0},
        }
    )
    memory = Memory()
    Simulation(scenario).run(memory)
    began = [row.sim_time_s - row.contact_s for row in memory.rows]
    first = (200 - 40 - 10) / 10  # in range from 15 s to 23 s of every pass
    assert np.allclose(began, [first, 76 - 23 + 0.0, 76 + first, 2 * 76 - 23, 2 * 76 + first, 3 * 76 - 23], atol=1e-5)
    assert all(row.delivered for row in memory.rows)
