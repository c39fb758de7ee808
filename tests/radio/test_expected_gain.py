"""Expected gain: its choices against a plain computation, and what moves them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import shapely
from making import Disc, Static, reporting

from fedmule.mobility.driving import Driving
from fedmule.mobility.positions import Positions
from fedmule.mobility.terrain import Obstacle, Terrain
from fedmule.mobility.trajectory import Trajectories
from fedmule.radio.graph import ContactGraph
from fedmule.radio.obstruction import Obstruction
from fedmule.radio.walks import expected_gain
from fedmule.radio.walks.expected_gain import ExpectedGain, weight_of_loss
from fedmule.radio.walks.past import Logbook, PastContact
from fedmule.radio.walks.policy import Here
from fedmule.simulator.streams import Streams

WALL = Obstacle(shapely.box(150, 20, 160, 380), True, 9.0)
TERRAIN, SPEED_MPS, COUNT, LENGTH_S = Terrain((400.0, 400.0), [WALL]), 8.0, 8, 1000.0
DRIVING = Driving(TERRAIN, SPEED_MPS)
DRAWS = np.random.default_rng(0)


class World:
    """A vehicle with a past of its own among clients that stand still."""

    def __init__(self, seed: int = 0, range_m: float = 90.0, count: int = COUNT) -> None:
        draw = Streams(seed).draw("mobility")
        positions = Positions(Trajectories(Static(TERRAIN, count, draw)), Streams(seed).draw("reports"), reporting())
        self.graph = ContactGraph(positions, Disc(range_m), Obstruction(), np.ones(count, dtype=bool))
        self.known = self.graph.known(np.arange(count))
        self.walk, self.book = ExpectedGain(self.graph), Logbook(count)
        self.rows: list[PastContact] = []
        self.given_up: dict[int, float] = {}

    def met(
        self, client: int, ended_s: float, delivered: list[int], in_passing: bool = False, lasted_s: float = 5.0
    ) -> None:
        asked = np.unique([client, *delivered])
        row = PastContact(
            client, ended_s - lasted_s, ended_s, in_passing, len(asked), asked, np.array(delivered, dtype=np.int64)
        )
        self.rows.append(row)
        self.book.met(row)

    def here(self, client: int | None, xy: Any, now_s: float) -> Here:
        return Here(client, np.asarray(xy), now_s, now_s / LENGTH_S, self.book.past, DRIVING)

    def expected(self, here: Here, losses: dict[int, float]) -> int:
        """The client of highest gain per second, by the definition."""
        tau, n = expected_gain.FORGET * LENGTH_S, len(self.known)
        visits = [row.ended_s - row.began_s for row in self.rows if not row.in_passing]
        contact_s = (expected_gain.FIRST_CONTACT_S + sum(visits)) / (1 + len(visits))
        mean = np.mean(list(losses.values())) if losses else 1.0
        gain = []
        for i in range(n):
            given = sum(math.exp(-(here.now_s - r.ended_s) / tau) for r in self.rows if i in r.delivered)
            one = 1 / (1 + given) * math.sqrt(min(5.0, max(0.2, losses.get(i, mean) / mean)))
            if i in self.given_up:
                one *= 1 - math.exp(-(here.now_s - self.given_up[i]) / tau)
            gain.append(one)
        rates = {}
        for i in range(n):
            near = [j for j in range(n) if j != i and math.dist(self.known[i], self.known[j]) <= 90.0]
            way_s = DRIVING.way(here.xy, self.known[i])[0][-1]
            rates[i] = (gain[i] + expected_gain.TOGETHER * sum(gain[j] for j in near)) / (way_s + contact_s)
        return max((i for i in range(n) if i != here.client), key=lambda i: rates[i])


@pytest.mark.parametrize("seed", range(12))
def test_it_chooses_the_highest_gain_per_second(seed: int) -> None:
    """As many clients as it plans ways to, so that nothing is left out."""
    assert expected_gain.LOOKED_AT >= COUNT
    world, random, losses = World(seed), np.random.default_rng(seed), dict[int, float]()
    client, xy, chosen = None, TERRAIN.nearest_open(np.array([200.0, 10.0])), []
    for visit in range(25):
        now_s = 1.0 + 30.0 * visit
        here = world.here(client, xy, now_s)
        client = world.walk.next(here, DRAWS)
        assert client == world.expected(here, losses)
        chosen.append(client)
        if random.random() < 0.2:
            world.given_up[client] = now_s + 8.0
            world.book.gave_up(client, now_s + 8.0)
            continue
        xy = world.known[client]
        delivered = sorted({client, *(c for c in world.graph.neighbours(client).tolist() if random.random() < 0.7)})
        world.met(client, now_s + 20.0, delivered, lasted_s=float(random.uniform(1, 9)))
        world.met(int(random.integers(COUNT)), now_s + 22.0, [int(random.integers(COUNT))], in_passing=True)
        reported = {c: float(random.exponential()) for c in delivered if random.random() < 0.8}
        losses |= reported
        index = np.array(sorted(reported), dtype=np.int64)
        world.book.heard(index, np.array([reported[c] for c in index.tolist()]), np.full(len(index), np.nan))
    assert len(set(chosen)) > COUNT // 2


def test_of_equals_the_one_with_the_highest_loss_comes_first() -> None:
    assert weight_of_loss(np.full(3, np.nan)).tolist() == [1, 1, 1]
    assert weight_of_loss(np.array([1.0, 3.0, np.nan])) == pytest.approx([math.sqrt(0.5), math.sqrt(1.5), 1.0])
    assert weight_of_loss(np.array([0.0, 1.0])) == pytest.approx([math.sqrt(0.2), math.sqrt(2)])
    assert weight_of_loss(np.array([0.0, 0.0])).tolist() == [1, 1]
    world = World(range_m=1.0)
    everyone = np.arange(COUNT)
    world.book.heard(everyone, np.where(everyone == 6, 100.0, 1.0), np.full(COUNT, np.nan))
    for client in everyone.tolist():
        world.met(client, 10.0, [client], lasted_s=600.0)  # beside that, the way hardly counts
    assert world.walk.next(world.here(None, world.known[0], 20.0), DRAWS) == 6


def test_a_client_given_up_waits_until_others_are_worth_less() -> None:
    world = World(range_m=1.0)
    first = world.walk.next(world.here(None, [200.0, 10.0], 1.0), DRAWS)
    world.book.gave_up(first, 2.0)
    after = [world.walk.next(world.here(None, [200.0, 10.0], 2.0 + k), DRAWS) for k in range(5)]
    assert first not in after
    assert world.walk.next(world.here(None, [200.0, 10.0], 900.0), DRAWS) == first


def test_absent_clients_are_skipped_and_a_single_client_is_visited_again() -> None:
    world = World()
    here = world.here(3, world.known[3], 5.0)
    world.graph.admit(np.isin(np.arange(COUNT), [1, 3, 4]))
    assert {world.walk.next(here, DRAWS) for _ in range(3)} <= {1, 4}
    world.graph.admit(np.arange(COUNT) == 3)
    assert world.walk.next(here, DRAWS) == 3


def test_ways_are_planned_to_a_few_only(monkeypatch: pytest.MonkeyPatch) -> None:
    world, ways, way = World(count=60), [], Driving.way
    monkeypatch.setattr(Driving, "way", lambda self, start, aim: ways.append(aim) or way(self, start, aim))
    world.walk.next(world.here(None, [200.0, 10.0], 1.0), DRAWS)
    assert 1 < len(ways) <= expected_gain.LOOKED_AT


def test_where_nothing_says_when_the_run_ends_it_is_taken_to_last_as_long_again() -> None:
    assert expected_gain.length_of_run_s(50.0, 0.25) == 200.0
    assert expected_gain.length_of_run_s(50.0, 0.0) == 100.0
    world = World()
    here = Here(None, np.array([200.0, 10.0]), 0.0, 0.0, world.book.past, DRIVING)
    assert world.walk.next(here, DRAWS) in range(COUNT)
