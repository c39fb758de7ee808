"""Markov chains: classes, stationary distributions and spectra, in closed form and by brute force."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_graphs import matrix, two_groups, with_one_alone

from fedmule.analysis.theory import Chain, contraction

rules = pytest.mark.parametrize("rule", ["degree", "metropolis", "lazy"])


# --- values known in closed form ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 7, 21])
def test_an_odd_cycle(n):
    chain = Chain(matrix(nx.cycle_graph(n)))
    cosines = np.cos(2 * np.pi * np.arange(1, n) / n)
    assert chain.ergodic
    assert chain.second == pytest.approx(cosines.max())
    assert chain.modulus == pytest.approx(np.abs(cosines).max()) == pytest.approx(math.cos(math.pi / n))
    assert chain.gap == pytest.approx(1 - math.cos(math.pi / n))
    assert chain.sigma == pytest.approx(chain.modulus)  # P is symmetric
    assert chain.stationary == pytest.approx(np.full(n, 1 / n))


@pytest.mark.parametrize(
    "graph", [nx.cycle_graph(8), nx.path_graph(5), nx.star_graph(6), nx.path_graph(2), nx.grid_2d_graph(3, 4)]
)
def test_what_can_be_coloured_with_two_colours_is_periodic(graph):
    graph = nx.convert_node_labels_to_integers(graph)
    plain, lazy = Chain(matrix(graph)), Chain(matrix(graph, "lazy"))
    assert [c.period for c in plain.classes] == [2]
    assert (plain.settles, plain.modulus, plain.second < 1) == (False, 1.0, True)
    assert lazy.ergodic
    assert Chain(matrix(graph), 0.1).ergodic
    assert lazy.stationary == pytest.approx(plain.stationary)


@pytest.mark.parametrize("n", [3, 6, 30])
def test_a_complete_graph(n):
    chain = Chain(matrix(nx.complete_graph(n)))
    assert chain.second == pytest.approx(-1 / (n - 1))
    assert chain.modulus == pytest.approx(1 / (n - 1))
    assert chain.sigma == pytest.approx(1 / (n - 1))


@pytest.mark.parametrize("leaves", [2, 6, 25])
def test_a_lazy_star(leaves):
    """Eigenvalues 1, ½ (leaves against each other) and 0 (the hub against the leaves)."""
    chain = Chain(matrix(nx.star_graph(leaves), "lazy"))
    assert chain.second == pytest.approx(0.5)
    assert chain.modulus == pytest.approx(0.5)
    assert chain.stationary == pytest.approx([0.5] + [0.5 / leaves] * leaves)


@pytest.mark.parametrize("n", [2, 5, 16])
def test_a_lazy_path(n):
    """1/deg on a path has cos(πj/(n − 1)); lazy takes half the way from there to 1."""
    chain = Chain(matrix(nx.path_graph(n), "lazy"))
    assert chain.modulus == pytest.approx((1 + math.cos(math.pi / (n - 1))) / 2, abs=1e-12)
    degrees = np.array([1.0] + [2.0] * (n - 2) + [1.0])
    assert chain.stationary == pytest.approx(degrees / degrees.sum())


@pytest.mark.parametrize("leaves", [2, 6])
def test_metropolis_on_a_star_visits_all_alike(leaves):
    """Leaves go to the hub with 1/leaves: eigenvalue 1 − 1/leaves, and 1 − (leaves + 1)/leaves for the hub."""
    chain = Chain(matrix(nx.star_graph(leaves), "metropolis"))
    assert chain.stationary == pytest.approx(np.full(leaves + 1, 1 / (leaves + 1)))
    assert chain.second == pytest.approx(1 - 1 / leaves)
    assert chain.sigma == pytest.approx(chain.modulus)


def test_one_over_degree_is_stationary_in_proportion_to_degree():
    graph = nx.lollipop_graph(4, 3)
    degrees = np.array([graph.degree[i] for i in range(7)])
    assert Chain(matrix(graph)).stationary == pytest.approx(degrees / (2 * graph.number_of_edges()))


def test_one_client_and_two():
    alone = Chain(matrix(nx.empty_graph(1)))
    assert (alone.second, alone.modulus, alone.sigma, alone.gap) == (0, 0, 0, 1)
    assert alone.ergodic
    assert alone.stationary.tolist() == [1]
    pair = Chain(matrix(nx.path_graph(2)))
    assert (pair.second, pair.modulus, pair.period) == (pytest.approx(-1), 1, 2)
    assert Chain(matrix(nx.path_graph(2)), 0.5).second == pytest.approx(-0.5)


# --- jumps ----------------------------------------------------------------------------------------------------


@rules
@pytest.mark.parametrize("graph", [nx.lollipop_graph(4, 3), nx.star_graph(5), two_groups(), with_one_alone()])
def test_jumps_shrink_all_eigenvalues_but_one(rule, graph):
    plain, jumping = Chain(matrix(graph, rule)), Chain(matrix(graph, rule), 0.2)
    assert jumping.second == pytest.approx(0.8 * plain.second)
    assert jumping.modulus == pytest.approx(0.8 * plain.modulus)
    assert jumping.sigma == pytest.approx(0.8 * plain.sigma)


@rules
@pytest.mark.parametrize("graph", [nx.lollipop_graph(4, 3), nx.star_graph(5), two_groups(), with_one_alone()])
def test_jumps_kept_apart_and_written_out_are_the_same_chain(rule, graph):
    apart, written = Chain(matrix(graph, rule), 0.15), Chain(matrix(graph, rule, 0.15))
    assert apart.dense == pytest.approx(written.dense, abs=1e-14)
    assert apart.stationary == pytest.approx(written.stationary)
    for name in ("second", "modulus", "sigma", "weighted_sigma", "smallest", "reversible", "ergodic"):
        assert getattr(apart, name) == pytest.approx(getattr(written, name), abs=1e-9), name


def test_jumps_and_clients_alone_bend_the_stationary_distribution():
    """deg/2m holds for 1/deg without jumps only; 1/n for metropolis only while nobody is alone."""
    star = nx.star_graph(4)
    assert Chain(matrix(star)).stationary[0] == pytest.approx(0.5)
    hub = 1 / 1.9 * (0.1 / 5 + 0.9)  # π₀ = 0.1/5 + 0.9 (1 − π₀)
    assert Chain(matrix(star), 0.1).stationary[0] == pytest.approx(hub)
    assert Chain(matrix(star, "metropolis"), 0.1).stationary == pytest.approx(np.full(5, 0.2))
    alone = Chain(matrix(with_one_alone(), "metropolis"), 0.1).stationary[3]
    assert alone == pytest.approx(0.1 / 4 / (1 - 0.9 / 4))  # π = 0.1/4 + 0.9 π/4
    assert alone < 0.05


# --- classes --------------------------------------------------------------------------------------------------


def test_separate_groups():
    chain = Chain(matrix(two_groups()))
    assert [(c.clients.tolist(), c.closed, c.period) for c in chain.classes] == [
        ([0, 1, 2], True, 1),
        ([3, 4, 5, 6, 7], True, 1),
    ]
    assert (chain.second, chain.modulus, chain.settles) == (1, 1, False)
    assert chain.stationary == pytest.approx(np.full(8, 1 / 8))  # a walk begun anywhere


def test_a_client_alone_is_left_for_good():
    chain = Chain(matrix(with_one_alone()))
    assert [(c.clients.tolist(), c.closed) for c in chain.classes] == [([0, 1, 2], True), ([3], False)]
    assert (chain.settles, chain.ergodic) == (True, False)
    assert chain.stationary == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])
    assert math.isnan(chain.weighted_sigma)


def test_the_stationary_distribution_is_what_a_walk_begun_anywhere_ends_in():
    graph = nx.disjoint_union(two_groups(), nx.empty_graph(2))  # the two alone jump into the groups
    p = matrix(graph).toarray()
    expected = np.full(10, 0.1) @ np.linalg.matrix_power(p, 2000)
    assert Chain(p).stationary == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("period", [1, 2, 3, 4])
def test_periods_of_one_way_rings(period):
    """Two one-way rings of 4·period and 6·period clients through one client: the common divisor counts."""
    p = np.zeros((10 * period - 1, 10 * period - 1))
    rings = [0, *range(1, 4 * period)], [0, *range(4 * period, 10 * period - 1)]
    for ring in rings:
        for i, j in zip(ring, [*ring[1:], 0], strict=True):
            p[i, j] = 0.5 if i == 0 else 1.0
    assert [c.period for c in Chain(p).classes] == [2 * period]


# --- against independent computation --------------------------------------------------------------------------


@given(seed=st.integers(0, 10_000), jump=st.sampled_from([0.0, 0.05]), rule=st.sampled_from(["degree", "metropolis"]))
def test_random_graphs_by_brute_force(seed, jump, rule):
    generator = np.random.default_rng(seed)
    n = int(generator.integers(2, 10))
    graph = nx.gnp_random_graph(n, generator.uniform(0.2, 0.9), seed=seed)
    chain = Chain(matrix(graph, rule), jump)
    p = chain.dense
    far = np.linalg.matrix_power((p + np.eye(n)) / 2, 2**14)  # lazy, so that it settles within classes
    assert chain.stationary == pytest.approx(far.mean(axis=0), abs=1e-6)
    values = np.linalg.eigvals(p)
    values = np.delete(values, np.abs(values - 1).argmin())
    assert chain.modulus == pytest.approx(np.abs(values).max(), abs=1e-6)
    assert chain.second == pytest.approx(values.real.max(), abs=1e-6)
    f = generator.normal(size=(200, n))
    f -= f.mean(axis=1, keepdims=True)
    assert (np.linalg.norm(f @ p, axis=1) <= (chain.sigma + 1e-9) * np.linalg.norm(f, axis=1)).all()
    basis = np.linalg.svd(np.ones((1, n)))[2][1:]  # orthonormal, ⟂ 1
    assert chain.sigma == pytest.approx(np.linalg.norm(basis @ p, 2))
    if chain.ergodic:
        scale = np.sqrt(chain.stationary)
        ratio = np.linalg.norm((f @ p) / scale, axis=1) / np.linalg.norm(f / scale, axis=1)
        assert (ratio <= chain.weighted_sigma + 1e-9).all()
        assert chain.weighted_sigma < 1 + 1e-12


@pytest.mark.parametrize(
    ("graph", "rule", "jump"),
    [
        (nx.random_geometric_graph(120, 0.25, seed=1), "degree", 0.0),
        (nx.random_geometric_graph(120, 0.25, seed=1), "degree", 0.1),
        (nx.random_geometric_graph(120, 0.08, seed=1), "metropolis", 0.1),
        (nx.random_geometric_graph(120, 0.25, seed=1), "metropolis", 0.0),
        (nx.cycle_graph(121), "degree", 0.0),
    ],
)
def test_large_chains_by_iteration_are_as_by_all_eigenvalues(monkeypatch, graph, rule, jump):
    p = matrix(graph, rule)
    dense = Chain(p, jump)
    expected = [dense.second, dense.modulus, dense.sigma, dense.weighted_sigma]
    monkeypatch.setattr("fedmule.analysis.theory.linear.DENSE", 50)
    monkeypatch.setattr("fedmule.analysis.theory.chain.DENSE", 50)
    found = Chain(p, jump)
    assert [found.second, found.modulus, found.sigma, found.weighted_sigma] == pytest.approx(expected, abs=1e-8)


def test_sigma_can_exceed_one_though_the_walk_settles():
    chain = Chain(matrix(nx.lollipop_graph(3, 2)))
    assert chain.ergodic
    assert chain.sigma > 1.01
    assert chain.weighted_sigma == pytest.approx(chain.modulus) == pytest.approx(0.8565683265842721)


def test_p_max_may_contract_more_than_what_it_is_the_largest_of():
    """Staying and swapping, two clients: P_max is all ones, σ(P_max) = 0, and yet both have σ = 1."""
    stay, swap = np.eye(2), np.eye(2)[::-1]
    assert (contraction(stay), contraction(swap)) == (1, 1)
    assert contraction(np.maximum(stay, swap)) == pytest.approx(0)


@pytest.mark.parametrize(
    ("p", "jump", "message"),
    [
        ([[0.5, 0.4], [0.5, 0.5]], 0.0, "row 0 does not"),
        ([[1.5, -0.5], [0.5, 0.5]], 0.0, "no negative"),
        ([[1.0, 0.0]], 0.0, "square"),
        (np.empty((0, 0)), 0.0, "square"),
        ([[1.0]], 1.5, "between 0 and 1"),
    ],
)
def test_what_is_no_transition_matrix(p, jump, message):
    with pytest.raises(ValueError, match=message):
        Chain(np.array(p), jump)
