"""Walk policies that visit everyone: passes, ages and tours against plain computations."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from making import Disc, Static, Waypoint, reporting
from numpy.typing import NDArray

from fedmule.mobility.models.movement import Draw, Movement
from fedmule.mobility.positions import Positions
from fedmule.mobility.terrain import Terrain
from fedmule.mobility.trajectory import Trajectories
from fedmule.radio.graph import ContactGraph
from fedmule.radio.obstruction import Obstruction
from fedmule.radio.walks.expected_gain import ExpectedGain
from fedmule.radio.walks.past import Logbook, PastContact
from fedmule.radio.walks.policy import Here, Policy
from fedmule.radio.walks.rounds import NearestUnvisited, OldestFirst
from fedmule.radio.walks.tour import Tour, _improved, _nearest_neighbours, short_tour, tour_length
from fedmule.simulator.streams import Streams

TERRAIN = Terrain((500.0, 400.0))
COUNT = 14
policies = pytest.mark.parametrize("policy", [NearestUnvisited, OldestFirst, Tour])
NO_DRAWS = np.random.default_rng(0)


def make_graph(model: type[Movement] = Static, count: int = COUNT) -> tuple[ContactGraph, Positions]:
    draw: Draw = Streams(3).draw("mobility")
    positions = Positions(Trajectories(model(TERRAIN, count, draw)), Streams(3).draw("reports"), reporting(10.0, 2.0))  # type: ignore[call-arg]
    return ContactGraph(positions, Disc(50.0), Obstruction(), np.ones(count, dtype=bool)), positions


def follow(policy: Policy, visits: int, positions: Positions, here: Here | None = None) -> list[int]:
    """Clients visited by a vehicle that arrives instantly."""
    here, clients = here or Here(None, np.array([250.0, 200.0])), []
    for _ in range(visits):
        client = policy.next(here, NO_DRAWS)
        clients.append(client)
        here = Here(client, positions.known(np.array([client]))[0])
    return clients


@policies
@pytest.mark.parametrize("model", [Static, Waypoint])
def test_a_pass_visits_everyone_once(policy: type[Policy], model: type[Movement]) -> None:
    graph, positions = make_graph(model)
    walk, here = policy(graph), Here(None, np.array([250.0, 200.0]))
    for visit in range(3 * COUNT):
        positions.advance(30.0 * visit)
        if visit % COUNT == 0:
            seen: set[int] = set()
        client = walk.next(here, NO_DRAWS)
        assert client != here.client
        seen.add(client)
        here = Here(client, positions.known(np.array([client]))[0])
        if visit % COUNT == COUNT - 1:
            assert len(seen) == COUNT


def test_nearest_unvisited_goes_to_the_nearest() -> None:
    graph, positions = make_graph()
    known = positions.known(np.arange(COUNT))
    at, left, expected = np.array([250.0, 200.0]), set(range(COUNT)), []
    for _ in range(COUNT):
        expected.append(min(left, key=lambda i: float(np.hypot(*(known[i] - at)))))
        left.remove(expected[-1])
        at = known[expected[-1]]
    assert follow(NearestUnvisited(graph), COUNT, positions) == expected


def test_oldest_first_repeats_its_first_pass_and_visits_newcomers_first() -> None:
    graph, positions = make_graph()
    everyone = graph.members.copy()
    graph.admit(everyone & (np.arange(COUNT) != 5))
    walk = OldestFirst(graph)
    first = follow(walk, COUNT - 1, positions)
    assert 5 not in first
    graph.admit(everyone)
    here = Here(first[-1], positions.known(np.array(first[-1:]))[0])
    assert follow(walk, COUNT, positions, here) == [5, *first]


@policies
def test_absent_clients_are_skipped_and_a_single_client_is_visited_again(policy: type[Policy]) -> None:
    graph, positions = make_graph()
    walk = policy(graph)
    begun = follow(walk, 4, positions)
    gone = np.ones(COUNT, dtype=bool)
    rest = [c for c in range(COUNT) if c not in begun]
    gone[rest[:6]] = False
    graph.admit(gone)
    here = Here(begun[-1], positions.known(np.array(begun[-1:]))[0])
    after = follow(walk, 30, positions, here)
    assert not set(after) & set(rest[:6])
    assert set(after) == set(np.flatnonzero(gone).tolist())
    graph.admit(np.arange(COUNT) == 7)
    assert set(follow(walk, 5, positions)) == {7}


@policies
def test_a_client_that_is_not_reached_goes_to_the_back(policy: type[Policy]) -> None:
    """The vehicle never arrives, yet no client is chosen again before all others have been."""
    graph, _ = make_graph()
    walk, here = policy(graph), Here(None, np.array([250.0, 200.0]))
    asked = [walk.next(here, NO_DRAWS) for _ in range(2 * COUNT)]
    assert sorted(asked[:COUNT]) == sorted(asked[COUNT:]) == list(range(COUNT))


# --- tours ---------------------------------------------------------------------------------------------------


def random_positions(count: int, seed: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).uniform(0, 100, (count, 2))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7])
def test_short_tours_are_the_shortest(count: int) -> None:
    for seed in range(4):
        xy = random_positions(count, seed)
        lengths = [
            sum(np.hypot(*(xy[a] - xy[b])) for a, b in zip(order, (*order[1:], order[0]), strict=True))
            for order in permutations(range(count))
        ]
        assert tour_length(xy[short_tour(xy)]) == pytest.approx(min(lengths))
        if count > 3:
            improved = tour_length(xy[_improved(xy, _nearest_neighbours(xy))])
            assert improved <= 1.1 * min(lengths)


def test_longer_tours_are_nearly_the_shortest() -> None:
    angle = np.random.default_rng(1).permutation(np.sort(np.random.default_rng(0).uniform(0, 2 * np.pi, 60)))
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    order = short_tour(circle)
    assert sorted(order.tolist()) == list(range(60))
    assert tour_length(circle[order]) == pytest.approx(tour_length(circle[np.argsort(angle)]))  # the shortest
    xy = random_positions(300, 5)
    best = 0.7124 * np.sqrt(300 * 100 * 100) * (1 + 0.33 / 300)  # about, for random positions
    assert tour_length(xy[short_tour(xy)]) < 1.15 * best
    same_position = np.zeros((20, 2))
    assert sorted(short_tour(same_position).tolist()) == list(range(20))


def test_a_tour_begins_at_the_nearest_client_and_is_kept_while_clients_are_still() -> None:
    graph, positions = make_graph()
    walk = Tour(graph)
    clients = follow(walk, 3 * COUNT, positions)
    known = positions.known(np.arange(COUNT))
    assert clients[0] == int(np.argmin(np.hypot(*(known - [250.0, 200.0]).T)))
    assert clients[COUNT:] == clients[:-COUNT]
    assert tour_length(known[clients[:COUNT]]) == pytest.approx(tour_length(known[short_tour(known)]))


def knowing(graph: ContactGraph, frozen_s: float, delivered: dict[int, float], now_s: float = 100.0) -> Here:
    """What a vehicle knows whose token is final since `frozen_s`, after exchanges that ended at these times."""
    logbook = Logbook(COUNT)
    for client, ended_s in delivered.items():
        logbook.met(PastContact(client, ended_s - 1, ended_s, False, 1, np.array([client]), np.array([client])))
    return Here(None, np.array([250.0, 200.0]), now_s, 0.8, logbook.past, StraightAhead(), frozen_s)


class StraightAhead:
    """Driving in straight lines at 1 m/s."""

    def least_seconds(self, xy: np.ndarray, aims: np.ndarray) -> np.ndarray:
        """Return the seconds to each aim."""
        return np.asarray(np.hypot(*(aims - xy).T))

    def way(self, xy: np.ndarray, aim: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return times and positions of the way."""
        return np.array([0.0, float(np.hypot(*(aim - xy)))]), np.stack([xy, aim])


def test_who_lacks_the_final_token() -> None:
    graph, _ = make_graph()
    everyone = graph.reachable
    here = knowing(graph, 50.0, {3: 49.0, 4: 50.0, 7: 80.0})
    assert here.still_waiting(everyone).tolist() == [c for c in range(COUNT) if c not in (4, 7)]
    assert here.still_waiting(np.array([4, 7])).tolist() == [4, 7]  # nobody lacks it: everyone is as good as another
    assert knowing(graph, 101.0, {4: 50.0}).still_waiting(everyone).tolist() == everyone.tolist()  # not final yet
    assert Here(None, np.zeros(2)).still_waiting(everyone).tolist() == everyone.tolist()


@pytest.mark.parametrize("policy", [NearestUnvisited, OldestFirst, Tour, ExpectedGain])
def test_once_the_token_is_final_those_who_lack_it_come_first(policy: type[Policy]) -> None:
    graph, _ = make_graph()
    walk, delivered = policy(graph), {}
    for visit in range(6):  # before that
        delivered[walk.next(knowing(graph, np.inf, delivered, 10.0 * visit), NO_DRAWS)] = 10.0 * visit + 5
    served: dict[int, float] = {0: 61.0, 1: 62.0, 2: 63.0}
    for visit in range(COUNT - 3):
        client = walk.next(knowing(graph, 60.0, {**delivered, **served}, 70.0 + 10 * visit), NO_DRAWS)
        assert client not in served
        served[client] = 75.0 + 10 * visit
    assert len(served) == COUNT
    assert walk.next(knowing(graph, 60.0, served, 900.0), NO_DRAWS) in range(COUNT)
