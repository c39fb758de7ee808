import networkx as nx
import numpy as np
import pytest
import shapely
from making import Disc, Static, Waypoint, WifiDirect, reporting

from fedmule.mobility.positions import Positions
from fedmule.mobility.terrain import Obstacle, Terrain
from fedmule.mobility.trajectory import Trajectories
from fedmule.radio.graph import ContactGraph
from fedmule.radio.obstruction import Obstruction
from fedmule.radio.walks.random import Walk
from fedmule.simulator.streams import Streams

WALLS = [Obstacle(shapely.box(40, 10, 44, 90), True, 9.0), Obstacle(shapely.box(60, 50, 90, 55), True, 3.0)]
TERRAIN = Terrain((100.0, 100.0), WALLS)
COUNT = 40

radios = pytest.mark.parametrize("radio", [Disc(22.0), WifiDirect(25.0)], ids=["disc", "wifi"])
rules = pytest.mark.parametrize("rule", ["degree", "metropolis", "lazy"])


def make_graph(radio, model=Static, seed=1, error_m=2.0, absent=(3, 17), count=COUNT):
    trajectories = Trajectories(model(TERRAIN, count, Streams(seed).draw("mobility")))
    positions = Positions(trajectories, Streams(seed).draw("reports"), reporting(10.0, error_m))
    members = np.ones(count, dtype=bool)
    members[list(absent)] = False
    return ContactGraph(positions, radio, Obstruction(WALLS), members), positions


def expected_graph(radio, positions, members):
    """The graph of all pairs, by the formulas."""
    graph = nx.Graph()
    graph.add_nodes_from(int(i) for i in np.flatnonzero(members))
    known = positions.known(np.arange(len(members)))
    for i in graph.nodes:
        for j in graph.nodes:
            loss = sum(
                wall.radio_loss_db for wall in WALLS if wall.polygon.intersects(shapely.LineString(known[[i, j]]))
            )
            distance = np.hypot(*(known[i] - known[j]))
            reach = 25.0 * 10 ** (-loss / 30) if type(radio).__name__ == "WifiDirect" else 22.0 * (loss == 0)
            if i < j and distance <= reach:
                graph.add_edge(i, j)
    return graph


def expected_matrix(graph, rule, jump, n):
    p = np.zeros((n, n))
    members = sorted(graph.nodes)
    for i in members:
        row = np.zeros(n)
        for j in graph[i]:
            share = 1 / graph.degree[i]
            row[j] = {"degree": share, "lazy": share / 2, "metropolis": min(share, 1 / graph.degree[j])}[rule]
        row[i] = 1 - row.sum() if rule != "degree" else 0.0
        leap = jump if graph.degree[i] else 1.0
        p[i] = (1 - leap) * row
        p[i, members] += leap / len(members)
    return p


@radios
@pytest.mark.parametrize("model", [Static, Waypoint])
def test_edges_against_brute_force(radio, model):
    graph, positions = make_graph(radio, model)
    for t in (0.0, 25.0, 140.0):
        positions.advance(t)
        expected = expected_graph(radio, positions, graph.members)
        edges = graph.edges()
        assert [tuple(edge) for edge in edges.tolist()] == sorted(tuple(sorted(edge)) for edge in expected.edges)
        for i in graph.reachable:
            assert graph.neighbours(int(i)).tolist() == sorted(expected[int(i)])
        assert graph.degrees(graph.reachable).tolist() == [expected.degree[int(i)] for i in graph.reachable]
        assert expected.number_of_edges() > 20


def test_a_wall_removes_edges():
    behind, _ = make_graph(Disc(22.0), error_m=0.0)
    edges = {tuple(edge) for edge in behind.edges().tolist()}
    positions = make_graph(Disc(22.0), error_m=0.0)[1]
    free = ContactGraph(positions, Disc(22.0), Obstruction(), behind.members)
    assert edges < {tuple(edge) for edge in free.edges().tolist()}


@radios
@rules
@pytest.mark.parametrize("jump", [0.0, 0.15, 1.0])
def test_rows_against_networkx(radio, rule, jump):
    graph, positions = make_graph(radio)
    walk = Walk(graph, rule, jump)
    expected = expected_matrix(expected_graph(radio, positions, graph.members), rule, jump, COUNT)
    matrix = walk.matrix().toarray()
    assert matrix == pytest.approx(expected, abs=1e-12)
    for i in graph.reachable:
        row = walk.row(int(i)).dense(COUNT)
        assert row == pytest.approx(expected[i], abs=1e-12)
        assert row.sum() == pytest.approx(1, abs=1e-12)
        assert row == pytest.approx(matrix[i], abs=1e-14)
    assert not matrix[[3, 17]].any()
    assert not matrix[:, [3, 17]].any()


@radios
@rules
def test_rows_follow_the_clients(radio, rule):
    graph, positions = make_graph(radio, Waypoint)
    walk = Walk(graph, rule, 0.1)
    before = walk.row(5).dense(COUNT)
    positions.advance(200.0)
    expected = expected_matrix(expected_graph(radio, positions, graph.members), rule, 0.1, COUNT)
    assert walk.row(5).dense(COUNT) == pytest.approx(expected[5], abs=1e-12)
    assert walk.matrix().toarray() == pytest.approx(expected, abs=1e-12)
    assert not np.allclose(before, expected[5])


def test_metropolis_is_doubly_stochastic():
    graph, _ = make_graph(Disc(40.0), absent=())
    degrees = graph.degrees(np.arange(COUNT))
    assert degrees.min() > 0
    assert len(set(degrees)) > 3
    p = Walk(graph, "metropolis", 0.0).matrix().toarray()
    assert p == pytest.approx(p.T, abs=1e-14)
    assert p.sum(axis=0) == pytest.approx(np.ones(COUNT), abs=1e-12)
    assert p.sum(axis=1) == pytest.approx(np.ones(COUNT), abs=1e-12)


def test_degree_walk_is_stationary_in_proportion_to_degree():
    graph, _ = make_graph(Disc(40.0), absent=())
    degrees = graph.degrees(np.arange(COUNT))
    p = Walk(graph, "degree", 0.0).matrix().toarray()
    assert degrees @ p == pytest.approx(degrees, abs=1e-9)


@rules
def test_an_isolated_client_always_jumps(rule):
    graph, _ = make_graph(Disc(0.01), error_m=0.0)
    walk = Walk(graph, rule, 0.0)
    row = walk.row(8)
    expected = np.zeros(COUNT)
    expected[graph.reachable] = 1 / (COUNT - 2)
    assert row.dense(COUNT) == pytest.approx(expected)
    generator = np.random.default_rng(0)
    drawn = {row.draw(generator) for _ in range(1000)}
    assert drawn == set(graph.reachable.tolist())
    assert walk.matrix().toarray()[8] == pytest.approx(expected)


@rules
@pytest.mark.parametrize("jump", [0.0, 0.3])
def test_draws_follow_the_row(rule, jump):
    graph, _ = make_graph(Disc(30.0))
    walk = Walk(graph, rule, jump)
    client = int(graph.reachable[np.argmax(graph.degrees(graph.reachable))])
    row = walk.row(client)
    generator = np.random.default_rng(2)
    draws = 20_000
    seen = np.bincount([row.draw(generator) for _ in range(draws)], minlength=COUNT)
    expected = draws * row.dense(COUNT)
    assert not seen[expected == 0].any()
    used = expected > 0
    chi_square = ((seen - expected)[used] ** 2 / expected[used]).sum()
    assert chi_square < used.sum() + 6 * np.sqrt(2 * used.sum())


def test_the_first_client_is_drawn_from_all():
    graph, _ = make_graph(Disc(30.0))
    row = Walk(graph, "degree", 0.0).anywhere()
    generator = np.random.default_rng(3)
    seen = np.bincount([row.draw(generator) for _ in range(20_000)], minlength=COUNT)
    assert not seen[[3, 17]].any()
    assert seen[graph.reachable].min() > 400
    assert row.dense(COUNT).sum() == pytest.approx(1)


def test_the_same_generator_draws_the_same():
    graph, _ = make_graph(Disc(30.0))
    row = Walk(graph, "metropolis", 0.2).row(0)
    first = [row.draw(np.random.default_rng(s)) for s in range(20)]
    assert first == [row.draw(np.random.default_rng(s)) for s in range(20)]
    assert len(set(first)) > 3
