"""Several mobility models at once: each moves its clients as if it were alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from every_model import MODELS, make
from hypothesis import given, settings
from hypothesis import strategies as st
from making import Recorded, Static
from test_movement import FREE, WALLED

from fedmule.mobility.models.grouped import Grouped
from fedmule.mobility.models.movement import Movement, Waypoints
from fedmule.mobility.trajectory import Trajectories, position_at
from fedmule.simulator.streams import Streams

TIMES = [0.0, 0.0, 3.7, 50.0, 50.5, 180.0, 400.0]


def static(count: int) -> Movement:
    return Static(FREE, count, Streams(3).draw("still"))


def grouped(*models: Movement) -> Grouped:
    return Grouped(models, [model.start() for model in models])


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("other", ["squads", "waypoint"])
def test_each_model_moves_its_clients_as_if_it_were_alone(kind: str, other: str) -> None:
    both = Trajectories(grouped(make(other, WALLED, 5, 4), make(kind, WALLED, 1, 12), static(3)))
    alone = [Trajectories(model) for model in (make(other, WALLED, 5, 4), make(kind, WALLED, 1, 12), static(3))]
    for t in TIMES:
        expected = np.concatenate([trajectories.positions(t) for trajectories in alone])
        assert np.array_equal(both.positions(t), expected)
    for client, (model, own) in {2: (0, 2), 4: (1, 0), 15: (1, 11), 17: (2, 1)}.items():
        ahead = np.linspace(400.0, 900.0, 60)
        found, expected = both.path(client, 900.0), alone[model].path(own, 900.0)
        assert np.array_equal(position_at(*found, ahead), position_at(*expected, ahead))


def test_those_who_stand_still_stay_while_others_walk() -> None:
    still = static(5)
    ways = Trajectories(grouped(make("waypoint", FREE), still, make("herd", FREE)))
    assert len(ways) == 29
    assert not ways.still
    rows: list[Waypoints] = []
    ways.record(rows.append)
    walked = ways.positions(300.0)
    assert np.array_equal(walked[12:17], still.start())
    assert (walked[:12] != ways.movement.start()[:12]).any(axis=1).all()
    times, xy = ways.path(13, 1e9)
    assert times[-1] == np.inf
    assert (xy == still.start()[1]).all()
    ways.finish(300.0)
    logged = Waypoints.join(rows)
    for client in range(29):
        own = logged.client == client
        assert (np.diff(logged.t[own]) >= 0).all()
        assert np.array_equal(position_at(logged.t[own], logged.xy[own], np.array([300.0]))[0], walked[client])


def test_groups_that_all_stand_still_are_still() -> None:
    ways = Trajectories(grouped(static(2), static(3)))
    assert ways.still
    assert np.array_equal(ways.positions(1e6), np.concatenate([static(2).start(), static(3).start()]))


@settings(max_examples=20)
@given(st.lists(st.tuples(st.floats(0, 200), st.integers(-1, 20), st.floats(0, 100)), max_size=12))
def test_positions_do_not_depend_on_the_order_of_queries(questions: list[tuple[float, int, float]]) -> None:
    def build() -> Trajectories:
        return Trajectories(grouped(make("squads", WALLED, 1, 6), static(3), make("gauss_markov", WALLED, 2, 12)))

    plain, busy = build(), build()
    for t, client, ahead in sorted(questions):
        if client < 0:
            busy.positions(t)
        else:
            busy.path(client, t + ahead)
    assert np.array_equal(plain.positions(200.0), busy.positions(200.0))


class Counting(Movement):
    """Clients that stay for 10 s at a time, and note who was asked for."""

    still = False

    def __init__(self, count: int) -> None:
        self.count, self.asked = count, []

    def start(self):
        return np.zeros((self.count, 2))

    def extend(self, client, t, xy):
        self.asked.append(client.tolist())
        return Waypoints(client, t + 10.0, xy)


def test_only_the_models_asked_for_are_asked_and_by_their_own_numbers() -> None:
    a, b = Counting(3), Counting(4)
    ways = Trajectories(grouped(a, b))
    ways.path(5, 12.0)
    assert (a.asked, b.asked) == ([], [[2], [2]])
    ways.positions(1.0)
    assert a.asked == [[0, 1, 2]]


@pytest.fixture
def trace_file(tmp_path: Path) -> str:
    """Node a is there from 0 to 20 s, node b from 10 s on."""
    path = tmp_path / "two.csv"
    path.write_text("t,node,x,y\n0,a,10,10\n20,a,30,10\n20,a,,\n10,b,50,50\n40,b,50,80\n")
    return str(path)


def test_clients_of_a_trace_come_and_go_beside_those_who_stay(trace_file: str) -> None:
    def recorded() -> Movement:
        return Recorded(FREE, 2, Streams(0).draw("none"), trace_file)

    walkers = make("waypoint", FREE, 1, 2)
    movement = grouped(walkers, recorded(), static(1), recorded())
    assert movement.there(5.0).tolist() == [True, True, True, False, True, True, False]
    assert movement.there(15.0).all()
    assert movement.there(30.0).tolist() == [True, True, False, True, True, False, True]
    assert movement.next_arrival_s(5.0) == 10.0
    assert movement.next_arrival_s(10.0) == np.inf
    first = movement.first_positions()
    assert np.array_equal(first[[2, 3, 5, 6]], [[10, 10], [50, 50]] * 2)
    assert np.array_equal(first[[0, 1, 4]], movement.start()[[0, 1, 4]])
    assert Trajectories(movement).positions(10.0)[2].tolist() == [20.0, 10.0]


def test_where_nobody_comes_or_goes_everybody_is_there() -> None:
    movement = grouped(make("waypoint", FREE), static(2))
    assert movement.there(7.0) is None
    assert movement.next_arrival_s(7.0) == np.inf
    assert np.array_equal(movement.first_positions(), movement.start())
    assert [movement.clients(k) for k in (0, 1)] == [slice(0, 12), slice(12, 14)]
