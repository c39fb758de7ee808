"""Grids of streets and road networks: routes, closures and densities."""

import networkx as nx
import numpy as np
import pytest
import shapely
from every_model import sampled
from hypothesis import given, settings
from hypothesis import strategies as st
from random_terrain import length, length_inside, polygon_lists, terrain_of
from test_movement import trace

from fedmule.mobility.models.manhattan import Manhattan
from fedmule.mobility.models.movement import MovementError
from fedmule.mobility.models.roads import Roads
from fedmule.mobility.road_network import RoadNetwork, grid_lines, lines_of, streets
from fedmule.mobility.terrain import Obstacle, Terrain
from fedmule.simulator.streams import Streams

TOWN = Terrain((400.0, 300.0))
LAKE = shapely.box(110, 110, 290, 190)  # closes what lies on x = 200 and y = 150 inside it
BY_THE_LAKE = Terrain((400.0, 300.0), [Obstacle(LAKE)])


def manhattan(terrain, count=40, seed=1, turn=0.5, block=(50.0, 50.0), speed=(1.0, 3.0)):
    return Manhattan(terrain, count, Streams(seed).draw("mobility"), block, turn, speed)


def test_streets_are_centred():
    assert streets(400.0, 100.0).tolist() == [0, 100, 200, 300, 400]
    assert streets(450.0, 100.0).tolist() == [25, 125, 225, 325, 425]
    assert streets(70.0, 100.0).tolist() == [35]
    assert streets(0.3, 0.1) == pytest.approx([0, 0.1, 0.2, 0.3])
    lines = grid_lines((200.0, 100.0), (100.0, 100.0))
    assert len(lines) == 3 + 4
    assert [[0.0, 0.0], [0.0, 100.0]] in lines
    assert [[100.0, 100.0], [200.0, 100.0]] in lines
    assert grid_lines((70.0, 50.0), (100.0, 100.0)) == [[[35, 0], [35, 25]], [[35, 25], [35, 50]],
                                                       [[0, 25], [35, 25]], [[35, 25], [70, 25]]]  # fmt: skip


@pytest.mark.parametrize("terrain", [TOWN, BY_THE_LAKE], ids=["town", "lake"])
def test_manhattan_stays_on_open_streets_and_turns_back_only_in_dead_ends(terrain):
    model = manhattan(terrain)
    if terrain is BY_THE_LAKE:
        sides = np.concatenate(
            [model.crossings[np.flatnonzero(model.open) // 4], model.crossings[model.end[model.open]]]
        )
        assert not shapely.intersects_xy(LAKE, sides[:, 0], sides[:, 1]).any()
    for _, xy in trace(model, until=600.0):
        on_street = (np.abs(xy / 50 - np.round(xy / 50)) < 1e-9).any(axis=1)
        assert on_street.all()
        step = np.diff(xy, axis=0)
        assert (np.abs(step) < 1e-9).any(axis=1).all()  # along one axis only
        assert LAKE.intersection(shapely.LineString(xy)).length == 0 or terrain is TOWN
        crossings = xy[2:-1]
        step = np.diff(crossings, axis=0) / 50
        assert ((step[1:] + step[:-1]) != 0).any(axis=1).all()  # no dead ends here: never back


def turns_seen(model, until):
    """Number of times clients went straight on, left and right where all three were open."""
    seen = np.zeros(3)
    for _, xy in trace(model, until=until, step=50.0):
        step = np.diff(xy[2:-1], axis=0)
        at = xy[3:-2]
        inner = ((at > 1) & (at < np.array([399, 299]))).all(axis=1)
        cross = np.sign(step[:-1, 0] * step[1:, 1] - step[:-1, 1] * step[1:, 0])[inner]
        seen += [(cross == 0).sum(), (cross > 0).sum(), (cross < 0).sum()]
    return seen


@pytest.mark.parametrize("turn", [0.1, 0.3, 1.0])
def test_manhattan_turns_with_the_given_probability(turn):
    seen = turns_seen(manhattan(TOWN, 200, turn=turn), 1500.0)
    assert seen.sum() > 1500
    expected = np.array([1 - turn, turn / 2, turn / 2])
    assert np.abs(seen / seen.sum() - expected).max() < 4 * 0.5 / np.sqrt(seen.sum())


@pytest.mark.parametrize("terrain", [TOWN, BY_THE_LAKE], ids=["town", "lake"])
def test_manhattan_starts_in_the_steady_state(terrain):
    """Sides are used in proportion to the eigenvector of the Markov chain over them, found independently."""
    model = manhattan(terrain, 2500, block=(100.0, 50.0))
    side = np.flatnonzero(model.open)
    chain = np.zeros((len(side), len(side)))
    for i, s in enumerate(side):
        for k, share in enumerate(model.turns[s]):
            if share:
                chain[i, np.searchsorted(side, 4 * model.end[s] + (s + k) % 4)] += share
    assert chain.sum(axis=1) == pytest.approx(np.ones(len(side)))
    values, vectors = np.linalg.eig(chain.T)
    steady = np.real(vectors[:, np.argmax(np.real(values))])
    steady /= steady.sum()
    assert model.steady()[side] == pytest.approx(steady, abs=1e-7)
    start, end = model.crossings[side // 4], model.crossings[model.end[side]]
    time = steady * np.hypot(*(end - start).T)
    time /= time.sum()
    low, high = np.minimum(start, end) - 1e-6, np.maximum(start, end) + 1e-6
    for xy in sampled(model, [0.0, 1500.0]):
        for box in (shapely.box(0, 0, 401, 60), shapely.box(90, 0, 110, 301), shapely.box(320, 170, 401, 301)):
            inside = shapely.covers(box, shapely.box(low[:, 0], low[:, 1], high[:, 0], high[:, 1]))
            inside_position = np.zeros(len(xy), dtype=bool)
            for i in np.flatnonzero(inside):
                inside_position |= ((xy >= low[i]) & (xy <= high[i])).all(axis=1)
            expected = time[inside].sum()
            assert abs(inside_position.mean() - expected) < 4 * np.sqrt(expected / len(xy)) + 1e-3


def test_manhattan_speeds_start_in_the_steady_state():
    near = sampled(manhattan(TOWN, 3000, speed=(0.5, 5.0)), [0.0, 0.01, 900.0, 900.01])
    for k in (0, 2):
        speed = np.abs(near[k + 1] - near[k]).sum(axis=1) / 0.01  # round a corner too
        assert speed.mean() == pytest.approx(4.5 / np.log(10), rel=0.05)


def test_of_disconnected_streets_the_longest_part_is_used():
    river = Terrain((400.0, 300.0), [Obstacle(shapely.box(120, -1, 130, 301))])
    for xy in sampled(manhattan(river, 60), [0.0, 300.0]):
        assert (xy[:, 0] >= 150).all()
    with pytest.raises(MovementError, match="no side of a block"):
        manhattan(TOWN, block=(500.0, 500.0))


# --- road networks -----------------------------------------------------------------------------------------


def random_graph(rng, nodes=25, edges=45):
    graph = nx.Graph()
    positions = rng.uniform(0, (50, 40), (nodes, 2))
    for i, (x, y) in enumerate(positions):
        graph.add_node(i, x=x, y=y)
    for a, b in rng.integers(0, nodes, (edges, 2)):
        if a != b:
            graph.add_edge(a, b, length=np.hypot(*(positions[a] - positions[b])))
    return graph, positions


@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_routes_by_road_are_as_short_as_those_of_networkx(seed):
    rng = np.random.default_rng(seed)
    graph, positions = random_graph(rng)
    network = RoadNetwork(Terrain((50.0, 40.0)), lines_of(graph))
    parts = list(nx.connected_components(graph))
    longest = max(parts, key=lambda part: graph.subgraph(part).size("length"))
    assert len(network.parts) == sum(len(part) > 1 for part in parts)
    drawn = network.random_positions(rng.random(12))
    (starts, a), (goals, b) = network.nearest(drawn[:6]), network.nearest(drawn[6:])
    assert np.concatenate([starts, goals]) == pytest.approx(drawn)
    for i, route in enumerate(network.routes(starts, goals)):
        other = graph.subgraph(longest).copy()
        for name, position, piece in (("start", starts[i], a[i]), ("goal", goals[i], b[i])):
            for end in network.nodes[network.segments[piece]]:
                node = int(np.argmin(np.hypot(*(positions - end).T)))
                other.add_edge(name, node, length=np.hypot(*(positions[node] - position)))
        if a[i] == b[i]:
            other.add_edge("start", "goal", length=np.hypot(*(starts[i] - goals[i])))
        assert length(route) == pytest.approx(nx.shortest_path_length(other, "start", "goal", "length"))
        assert route[[0, -1]] == pytest.approx(np.stack([starts[i], goals[i]]))
        for leg in np.stack([route[:-1], route[1:]], axis=1):
            middle = shapely.Point(leg.mean(axis=0))
            assert network.parts[0].distance(middle) < 1e-9


@settings(max_examples=40)
@given(polygon_lists, st.integers(0, 10**6))
def test_roads_are_closed_at_walls_and_nowhere_else(polygons, seed):
    rng = np.random.default_rng(seed)
    lines = lines_of(random_graph(rng, 12, 20)[0])
    terrain = terrain_of(polygons)
    try:
        network = RoadNetwork(terrain, lines)
    except MovementError:
        assert shapely.intersection(shapely.MultiLineString(lines), terrain.areas[0]).length < 0.1
        return
    drawn = shapely.MultiLineString(list(network.nodes[network.segments]))
    whole = shapely.union_all(shapely.linestrings(np.array(lines)))
    assert length_inside(polygons, drawn.geoms[0].coords) < 1e-9
    assert max(polygon.intersection(drawn).length for polygon in polygons) < 1e-9
    assert shapely.union_all(drawn).length == pytest.approx(
        whole.intersection(terrain.areas[0]).length, rel=0.02, abs=0.1
    )


def test_lines_join_where_a_point_of_one_lies_on_another():
    lines = [[[0, 10], [40, 10]], [[20, 10], [20, 30]], [[10, 30.0002], [30, 30.0002]], [[0, 0], [5, 10], [9, 20]]]
    network = RoadNetwork(Terrain((50.0, 40.0)), lines)
    assert len(network.parts) == 1
    route = network.routes(np.array([[1.0, 2.0]]), np.array([[28.0, 30.0]]))[0]
    assert route == pytest.approx(np.array([[1, 2], [5, 10], [20, 10], [20, 30], [28, 30]]), abs=1e-3)


def test_lines_join_where_they_share_a_point_and_not_where_one_bridges_the_other():
    lines = [[[0, 10], [20, 10], [40, 10]], [[20, 10], [20, 30]], [[30, 0], [30, 39]]]
    network = RoadNetwork(Terrain((50.0, 40.0)), lines)
    assert len(network.parts) == 2
    assert network.parts[0].length == pytest.approx(60)
    route = network.routes(np.array([[5.0, 10.0]]), np.array([[20.0, 25.0]]))[0]
    assert route.tolist() == [[5, 10], [20, 10], [20, 25]]


def test_lines_of_different_kinds_of_graphs():
    pairs = nx.Graph([((0.0, 0.0), (3.0, 4.0))])
    assert lines_of(pairs) == [[[0, 0], [3, 4]]]
    placed = nx.Graph()
    placed.add_node("a", pos=(1, 2))
    placed.add_node("b", pos=(3, 4))
    placed.add_edge("a", "b")
    assert lines_of(placed) == [[[1, 2], [3, 4]]]
    bent = nx.MultiDiGraph()
    bent.add_node(1, x=0.0, y=0.0)
    bent.add_node(2, x=9.0, y=0.0)
    bent.add_edge(1, 2, geometry=shapely.LineString([(0, 0), (4, 5), (9, 0)]))
    bent.add_edge(2, 1)
    assert lines_of(bent) == [[[0, 0], [4, 5], [9, 0]], [[9, 0], [0, 0]]]


def test_clients_keep_to_the_longest_connected_part_of_the_roads():
    lines = [[[10, 10], [200, 10], [200, 200]], [[300, 250], [390, 290]]]
    network = RoadNetwork(TOWN, lines)
    movement = Roads(TOWN, 30, Streams(1).draw("mobility"), network, (2.0, 9.0), (0.0, 20.0), None)
    for times, xy in trace(movement, until=900.0):
        assert shapely.LineString(lines[0]).buffer(1e-6).covers(shapely.LineString(xy))
        assert np.hypot(*np.diff(xy, axis=0).T).sum() > 100
        assert (np.hypot(*np.diff(xy, axis=0).T) <= 9 * np.diff(times) + 1e-9).all()
