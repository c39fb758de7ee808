"""Lévy jumps of random walks: their law and P(k) against brute-force computations on small graphs."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from making import Disc, Static, reporting

from fedmule.mobility.positions import Positions
from fedmule.mobility.terrain import Terrain
from fedmule.mobility.trajectory import Trajectories
from fedmule.radio.graph import ContactGraph
from fedmule.radio.obstruction import Obstruction
from fedmule.radio.walks.jumps import LevyJumps, hop_chances
from fedmule.radio.walks.policy import Here
from fedmule.radio.walks.random import Rule, Walk, transition_matrix
from fedmule.simulator.streams import Streams

RULES: tuple[Rule, ...] = ("degree", "metropolis", "lazy")
COUNT = 24

# Graphs by name: connected ones, one in parts, one with a client alone, one whose ends are far apart.
GRAPHS: dict[str, nx.Graph] = {
    "path": nx.path_graph(9),
    "complete": nx.complete_graph(5),
    "parts": nx.disjoint_union(nx.cycle_graph(4), nx.star_graph(3)),
    "one alone": nx.disjoint_union(nx.cycle_graph(3), nx.empty_graph(1)),
    "random": nx.gnm_random_graph(12, 14, seed=2),
}
LEVY = LevyJumps(0.4, 0.6, 3)


def chance_of_hops(hops: int, hop_on: float, most: int) -> float:
    """P(d) = (1 − q) q^(d − 1) / (1 − q^r), as the literature writes it, with q = hop_on and r = most."""
    return (1 - hop_on) * hop_on ** (hops - 1) / (1 - hop_on**most)


def expected_matrix(graph: nx.Graph, rule: str, jump: float, levy: LevyJumps) -> np.ndarray[Any, Any]:
    """P by shortest paths between all pairs."""
    n = graph.number_of_nodes()
    far = dict(nx.all_pairs_shortest_path_length(graph))
    p = np.zeros((n, n))
    for i in range(n):
        if not graph.degree[i]:
            p[i] = 1 / n
            continue
        step = np.zeros(n)
        for j in graph[i]:
            share = 1 / graph.degree[i]
            step[j] = {"degree": share, "lazy": share / 2, "metropolis": min(share, 1 / graph.degree[j])}[rule]
        step[i] = 1 - step.sum()
        leap = np.zeros(n)
        for hops in range(1, levy.most_hops + 1):
            goals = [j for j, d in far[i].items() if d == hops]
            goals = goals or [j for j in range(n) if j not in far[i]]
            goals = goals or [j for j, d in far[i].items() if d == max(far[i].values())]
            for j in goals:
                leap[j] += chance_of_hops(hops, levy.hop_on, levy.most_hops) / len(goals)
        p[i] = (1 - jump) * ((1 - levy.chance) * step + levy.chance * leap) + jump / n
    return p


def make_graph(range_m: float, absent: tuple[int, ...] = (3, 17)) -> ContactGraph:
    draw = Streams(4).draw("mobility")
    positions = Positions(
        Trajectories(Static(Terrain((100.0, 100.0)), COUNT, draw)), Streams(4).draw("reports"), reporting()
    )
    members = np.ones(COUNT, dtype=bool)
    members[list(absent)] = False
    return ContactGraph(positions, Disc(range_m), Obstruction(), members)


@pytest.mark.parametrize(("hop_on", "most"), [(0.6, 3), (0.2, 1), (0.99, 7)])
def test_hops_follow_a_truncated_geometric_distribution(hop_on: float, most: int) -> None:
    expected = [chance_of_hops(hops, hop_on, most) for hops in range(1, most + 1)]
    assert hop_chances(hop_on, most) == pytest.approx(expected)
    assert hop_chances(1.0, 4) == pytest.approx([0.25] * 4)
    assert hop_chances(0.0, 4) == pytest.approx([1, 0, 0, 0])


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("jump", [0.0, 0.2])
def test_the_matrix_against_all_shortest_paths(name: str, rule: Rule, jump: float) -> None:
    graph = GRAPHS[name]
    n = graph.number_of_nodes()
    edges = np.array([sorted(edge) for edge in graph.edges], dtype=np.int64)
    for levy in (LEVY, LevyJumps(1.0, 0.5, 1), LevyJumps(0.3, 0.97, 12)):
        p = transition_matrix(edges, np.ones(n, dtype=bool), rule, jump, levy).toarray()
        assert p == pytest.approx(expected_matrix(graph, rule, jump, levy), abs=1e-12)
        assert p.sum(axis=1) == pytest.approx(np.ones(n), abs=1e-12)
        assert (p >= 0).all()
    plain = transition_matrix(edges, np.ones(n, dtype=bool), rule, jump)
    none = transition_matrix(edges, np.ones(n, dtype=bool), rule, jump, LevyJumps(0.0, 0.5, 3))
    assert none.toarray() == pytest.approx(plain.toarray(), abs=1e-15)


@pytest.mark.parametrize("range_m", [18.0, 30.0, 0.01])
@pytest.mark.parametrize("rule", RULES)
def test_rows_are_those_of_the_matrix_and_draws_follow_them(range_m: float, rule: Rule) -> None:
    graph = make_graph(range_m)
    walk = Walk(graph, rule, 0.1, LEVY)
    matrix = walk.matrix().toarray()
    assert not matrix[[3, 17]].any()
    assert not matrix[:, [3, 17]].any()
    for i in graph.reachable.tolist():
        assert walk.row(i).dense(COUNT) == pytest.approx(matrix[i], abs=1e-12)
        assert matrix[i].sum() == pytest.approx(1, abs=1e-12)
    client, draws, generator = int(graph.reachable[4]), 8_000, np.random.default_rng(1)
    here = Here(client, np.zeros(2))
    seen = np.bincount([walk.next(here, generator) for _ in range(draws)], minlength=COUNT)
    expected = draws * matrix[client]
    assert not seen[expected == 0].any()
    used = expected > 0
    chi_square = ((seen - expected)[used] ** 2 / expected[used]).sum()
    assert chi_square < used.sum() + 6 * np.sqrt(2 * used.sum())


def test_a_walk_without_levy_jumps_draws_as_it_always_did() -> None:
    graph = make_graph(30.0)
    plain, here = Walk(graph, "degree", 0.1), Here(5, np.zeros(2))
    generator, other = np.random.default_rng(7), np.random.default_rng(7)
    assert [plain.next(here, generator) for _ in range(50)] == [plain.row(5).draw(other) for _ in range(50)]


def test_levy_jumps_lead_out_of_a_part_that_steps_never_leave() -> None:
    """Without jumps anywhere a walk on a graph in two parts stays where it began; with Lévy jumps it visits all."""
    parts = GRAPHS["parts"]
    edges = np.array([sorted(edge) for edge in parts.edges], dtype=np.int64)
    everyone = np.ones(len(parts), dtype=bool)
    stuck = transition_matrix(edges, everyone, "degree", 0.0).toarray()
    free = transition_matrix(edges, everyone, "degree", 0.0, LEVY).toarray()
    assert not np.linalg.matrix_power(stuck + np.eye(8), 20)[:4, 4:].any()
    assert (np.linalg.matrix_power(free, 20) > 0).all()
    assert Walk(make_graph(18.0), "degree", 0.0).stays_in_a_group
    assert not Walk(make_graph(18.0), "degree", 0.0, LEVY).stays_in_a_group
