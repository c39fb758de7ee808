import itertools
from time import process_time

import networkx as nx
import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from making import Squads, Static, Waypoint

from fedmule.mobility.models.movement import Movement, Waypoints
from fedmule.mobility.models.redrawn import NoLayout, Redrawn
from fedmule.mobility.terrain import Obstacle, Surface, Terrain
from fedmule.mobility.trajectory import Trajectories
from fedmule.simulator.streams import Streams

WALLS = [
    shapely.box(20, 20, 60, 30),
    shapely.Polygon([(70, 10), (95, 50), (60, 60)]),
    shapely.box(0, 60, 50, 62),
    shapely.box(30, 75, 80, 80) - shapely.box(35, 77, 80, 80),
]
FREE = Terrain((100.0, 100.0))
WALLED = Terrain((100.0, 100.0), [Obstacle(wall) for wall in WALLS])
MUDDY = Terrain((100.0, 100.0), [Obstacle(wall) for wall in WALLS], [Surface(shapely.box(0, 0, 55, 100), 0.5)])

SPEEDS, PAUSES = (0.5, 3.0), (0.0, 12.0)


def waypoint(terrain, seed=1, count=12):
    return Waypoint(terrain, count, Streams(seed).draw("mobility"), SPEEDS, PAUSES)


def squads(terrain, seed=1, count=12):
    return Squads(terrain, count, Streams(seed).draw("mobility"), 4, 8.0, SPEEDS, PAUSES)


def trace(movement, until=300.0, step=7.0):
    """The recorded waypoints of each client, as (times, positions)."""
    trajectories = Trajectories(movement)
    rows = []
    trajectories.record(lambda row: rows.append(Waypoints(row.client.copy(), row.t.copy(), row.xy.copy())))
    for t in np.arange(0.0, until, step):
        trajectories.positions(t)
    trajectories.finish(until)
    whole = Waypoints.join(rows)
    return [(whole.t[whole.client == i], whole.xy[whole.client == i]) for i in range(len(trajectories))]


models = pytest.mark.parametrize("model", [waypoint, squads])
terrains = pytest.mark.parametrize("terrain", [FREE, WALLED, MUDDY], ids=["free", "walled", "muddy"])


@models
@terrains
def test_positions_follow_the_recorded_trace(model, terrain):
    tracks = trace(model(terrain))
    other = Trajectories(model(terrain))
    for t in np.sort(np.random.default_rng(0).uniform(0, 300, 150)):
        expected = [[np.interp(t, times, xy[:, 0]), np.interp(t, times, xy[:, 1])] for times, xy in tracks]
        assert other.positions(t) == pytest.approx(np.array(expected), abs=1e-9)
    for times, _ in tracks:
        assert times[0] == 0
        assert times[-1] == 300
        assert (np.diff(times) >= 0).all()


@models
@terrains
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nobody_in_a_wall_or_too_fast(model, terrain, seed):
    walls = shapely.union_all(WALLS)
    for times, xy in trace(model(terrain, seed), until=600.0):
        moved, spent = np.hypot(*np.diff(xy, axis=0).T), np.diff(times)
        assert (moved <= SPEEDS[1] * spent + 1e-9).all()
        assert moved.sum() > 20
        assert (xy >= 0).all()
        assert (xy <= 100).all()
        if terrain is not FREE:
            assert walls.intersection(shapely.LineString(xy)).length < 1e-9


def test_slower_on_mud():
    mud = Terrain((100.0, 100.0), (), [Surface(shapely.box(-1, -1, 101, 101), 0.25)])
    for times, xy in trace(waypoint(mud)):
        assert (np.hypot(*np.diff(xy, axis=0).T) <= 0.25 * SPEEDS[1] * np.diff(times) + 1e-9).all()


@settings(deadline=None, max_examples=25, derandomize=True)
@given(
    st.sampled_from([waypoint, squads]),
    st.lists(st.floats(0, 400, allow_nan=False), max_size=12),
    st.lists(st.tuples(st.floats(0, 400), st.integers(0, 11), st.floats(0, 200)), max_size=12),
)
def test_positions_do_not_depend_on_the_times_of_queries(model, grid, ahead_queries):
    asked = [200.0, 333.3, 400.0]
    plain, busy = Trajectories(model(WALLED)), Trajectories(model(WALLED))
    questions = sorted([(t, None, 0.0) for t in grid + asked] + ahead_queries, key=lambda question: question[0])
    seen = {}
    for t, client, ahead in questions:
        if client is None:
            seen[t] = busy.positions(t)
        else:
            busy.path(client, t + ahead)
    for t in asked:
        assert np.array_equal(plain.positions(t), seen[t])


@models
def test_path_predicts_positions(model):
    ahead, later = Trajectories(model(WALLED)), Trajectories(model(WALLED))
    for now in (0.0, 31.0, 90.0):
        ahead.positions(now)
        for client in (0, 5, 11):
            times, positions = ahead.path(client, now + 50)
            assert times[0] <= now
            assert times[-1] > now + 50
            for t in np.linspace(now, now + 50, 9):
                copy = Trajectories(model(WALLED))
                expected = copy.positions(t)[client]
                found = [np.interp(t, times, positions[:, 0]), np.interp(t, times, positions[:, 1])]
                assert found == pytest.approx(expected, abs=1e-9)
    assert np.array_equal(ahead.positions(200.0), later.positions(200.0))


@models
def test_positions_given_earlier_do_not_change(model):
    trajectories = Trajectories(model(FREE))
    first = trajectories.positions(0.0)
    kept = first.copy()
    trajectories.positions(500.0)
    assert np.array_equal(first, kept)


@models
def test_what_was_recorded_does_not_change(model):
    trajectories = Trajectories(model(FREE))
    rows, kept = [], []
    trajectories.record(lambda row: (rows.append(row.xy), kept.append(row.xy.copy())))
    trajectories.positions(50.0)
    trajectories.finish(500.0)
    assert all(np.array_equal(a, b) for a, b in zip(rows, kept, strict=True))


@models
def test_look_ahead_does_not_accumulate(model):
    """Waypoints that have been passed are dropped, even if paths are always queried ahead."""
    trajectories = Trajectories(model(FREE))
    sizes = []
    for t in np.arange(0.0, 12_000.0, 60.0):
        trajectories.positions(t)
        for client in range(12):
            trajectories.path(client, t + 300)
        sizes.append(sum(v.nbytes for v in vars(trajectories).values() if isinstance(v, np.ndarray)))
    assert sizes[-1] <= 2 * sizes[20]


def test_seeds_differ():
    assert not np.array_equal(
        Trajectories(waypoint(FREE, 1)).positions(50), Trajectories(waypoint(FREE, 2)).positions(50)
    )


def test_waypoint_speeds_and_pauses_span_the_given_intervals():
    speeds, pauses = [], []
    for times, xy in trace(waypoint(FREE, count=40), until=2000.0):
        moved, spent = np.hypot(*np.diff(xy, axis=0).T)[1:-1], np.diff(times)[1:-1]  # the last may be cut off
        walks = moved > 0
        speeds.extend(moved[walks] / spent[walks])
        pauses.extend(spent[~walks])
    assert min(speeds) >= SPEEDS[0] - 1e-9
    assert np.mean(speeds) == pytest.approx(np.mean(SPEEDS), rel=0.1)
    assert max(pauses) <= PAUSES[1]
    assert np.mean(pauses) == pytest.approx(np.mean(PAUSES), rel=0.1)


def test_squads_are_equal_and_stay_together():
    model = squads(FREE)
    assert np.bincount(model.squad).tolist() == [3, 3, 3, 3]
    trajectories = Trajectories(model)
    for t in np.arange(0.0, 600.0, 3.7):
        positions = trajectories.positions(t)
        for squad in range(4):
            members = positions[model.squad == squad]
            assert np.hypot(*(members - members[0]).T).max() <= 8.0 + 1e-9


@terrains
def test_squads_leave_and_arrive_together(terrain):
    model = squads(terrain)
    tracks = trace(model, until=900.0)
    moves = 0
    for squad in range(4):
        rests = []
        for i in np.flatnonzero(model.squad == squad):
            times, xy = tracks[i]
            still = np.flatnonzero(np.hypot(*np.diff(xy, axis=0).T) == 0)
            still = still[(times[still + 1] - times[still] > 1e-6) & (times[still + 1] < 900)]
            rests.append(np.stack([times[still], times[still + 1]], axis=1))
        moves += len(rests[0])
        for other in rests[1:]:
            assert other == pytest.approx(rests[0], abs=1e-6)
    assert moves > 10


def test_squads_of_one_and_fewer_clients_than_squads():
    draw = Streams(1).draw("mobility")
    assert Squads(FREE, 3, draw, squads=5).squad.tolist() == [0, 1, 2]
    assert len(np.unique(Squads(FREE, 17, draw, squads=5).squad)) == 5
    assert set(np.bincount(Squads(FREE, 17, draw, squads=5).squad)) == {3, 4}


def test_static_positions():
    given_positions = ((1.0, 2.0), (3.0, 4.0))
    trajectories = Trajectories(Static(FREE, 2, Streams(1).draw("mobility"), given_positions))
    assert trajectories.still
    assert trajectories.positions(0.0).tolist() == [[1, 2], [3, 4]]
    assert trajectories.positions(1e6).tolist() == [[1, 2], [3, 4]]
    times, positions = trajectories.path(1, 1e9)
    assert times[-1] > 1e9
    assert positions.tolist() == [[3, 4], [3, 4]]
    assert not trajectories.after_visit(10, 5.0)
    drawn = Static(WALLED, 200, Streams(1).draw("mobility")).start()
    assert (WALLED.area_of(drawn) == 0).all()


class Scripted(Movement):
    """A user-defined model: clients go back and forth along a line, each at its own pace."""

    still = False

    def start(self):
        return np.array([[0.0, 0.0], [0.0, 5.0]])

    def extend(self, client, t, xy):
        return Waypoints(client, t + 10.0 * (client + 1), np.stack([10.0 - xy[:, 0], xy[:, 1]], axis=1))


def test_user_defined_model():
    trajectories = Trajectories(Scripted())
    trajectories.path(1, 35.0)
    for t in (0.0, 3.0, 10.0, 17.0, 58.0):
        swing = [10 - abs(10 - t / (i + 1) % 20) for i in (0, 1)]
        assert trajectories.positions(t) == pytest.approx(np.array([[swing[0], 0], [swing[1], 5]]))


def fits(positions, neighbours, range_m):
    graph = nx.Graph()
    graph.add_nodes_from(range(len(positions)))
    for i in range(len(positions)):
        for j in range(i):
            if np.hypot(*(positions[i] - positions[j])) <= range_m + 1e-9:
                graph.add_edge(i, j)
    return nx.is_connected(graph) and min(dict(graph.degree).values()) >= neighbours


@pytest.mark.parametrize(
    ("count", "neighbours", "range_m"),
    [(20, 5, 40.0), (30, 5, 20.0), (40, 3, 5.0), (12, 2, 8.0), (1, 0, 5.0), (2, 1, 1.0)],
)
@pytest.mark.parametrize("terrain", [FREE, WALLED], ids=["free", "walled"])
def test_redrawn_layouts_are_connected(count, neighbours, range_m, terrain):
    model = Redrawn(terrain, count, Streams(4).draw("mobility"), 3, neighbours, range_m)
    layouts = [model.start()] + [model.after_visit(visit) for visit in (3, 6, 9)]
    for positions in layouts:
        assert fits(positions, neighbours, range_m)
        assert (terrain.area_of(positions) == 0).all()
    for a, b in itertools.pairwise(layouts):
        assert not np.isclose(a, b).any()
    assert all(model.after_visit(visit) is None for visit in (1, 2, 4, 5, 7, 8))
    again = Redrawn(terrain, count, Streams(4).draw("mobility"), 3, neighbours, range_m)
    assert np.array_equal(again.after_visit(6), layouts[2])


def test_trace_of_redrawn_positions_contains_the_jumps():
    trajectories = Trajectories(Redrawn(FREE, 10, Streams(4).draw("mobility"), 2, 2, 40.0))
    rows = []
    trajectories.record(rows.append)
    before = trajectories.positions(0.0).copy()
    assert not trajectories.after_visit(1, 5.0)
    assert np.array_equal(trajectories.positions(5.0), before)
    assert trajectories.after_visit(2, 9.0)
    after = trajectories.positions(9.0).copy()
    assert not np.isclose(before, after).any()
    trajectories.finish(20.0)
    whole = Waypoints.join(rows)
    for i in range(10):
        mine = whole.client == i
        assert whole.t[mine].tolist() == [0, 9, 9, 20]
        assert whole.xy[mine] == pytest.approx(np.array([before[i], before[i], after[i], after[i]]))


def test_redrawn_layouts_are_uniform_when_most_fit():
    """If random layouts fit at once, positions are uniform over the terrain."""
    model = Redrawn(FREE, 100, Streams(9).draw("mobility"), 1, 1, 60.0)
    positions = np.concatenate([model.after_visit(visit) for visit in range(1, 21)])
    assert positions.mean(axis=0) == pytest.approx([50, 50], abs=3)
    assert positions.std(axis=0) == pytest.approx([100 / 12**0.5] * 2, abs=2)


@pytest.mark.parametrize(("count", "neighbours", "range_m"), [(20, 19, 0.001), (60, 59, 2.0), (60, 40, 1.0)])
def test_impossible_layouts_are_refused_quickly(count, neighbours, range_m):
    model = Redrawn(FREE, count, Streams(4).draw("mobility"), 3, neighbours, range_m)
    began = process_time()
    with pytest.raises(NoLayout, match=f"{neighbours} neighbours"):
        model.start()
    assert process_time() - began < 10
