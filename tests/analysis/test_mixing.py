"""Mixing, hitting and cover times, products of matrices and the paper's formulas, against closed forms."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_graphs import matrix, two_groups, with_one_alone

from fedmule.analysis.theory import (
    Chain,
    Law,
    communication,
    cover_time,
    hitting_times,
    least_beta,
    lemma_bound,
    matthews,
    mixing_time,
    paper_bound,
    products,
    spectral_limit,
    variation_time,
    weighted_bound,
)


def harmonic(n: int) -> float:
    return sum(1 / k for k in range(1, n + 1))


# --- mixing times ---------------------------------------------------------------------------------------------


def step_by_step(chain, delta):
    """τ(δ) in both senses, one power after the other."""
    pi, power, k = chain.stationary, np.eye(chain.n), 0
    found: dict[str, int] = {}
    while len(found) < 2:
        if np.linalg.norm(power - pi, axis=1).max() <= delta * pi.min():
            found.setdefault("paper", k)
        if np.abs(power - pi).sum(axis=1).max() / 2 <= delta:
            found.setdefault("variation", k)
        power, k = power @ chain.dense, k + 1
    return found["paper"], found["variation"]


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    rule=st.sampled_from(["degree", "metropolis", "lazy"]),
    jump=st.sampled_from([0.0, 0.01, 0.2]),
    delta=st.sampled_from([0.9, 0.5, 0.1, 0.01]),
)
def test_bounds_are_above_the_exact_time(seed, rule, jump, delta):
    generator = np.random.default_rng(seed)
    graph = nx.gnp_random_graph(int(generator.integers(2, 10)), generator.uniform(0.3, 0.9), seed=seed)
    chain = Chain(matrix(graph, rule), jump)
    if chain.ergodic and chain.modulus < 0.999:
        paper, variation = step_by_step(chain, delta)
        assert mixing_time(chain, delta) == paper
        assert variation_time(chain, delta) == variation <= paper
        assert paper_bound(chain.sigma, chain.stationary.min(), delta) >= paper
        assert paper <= weighted_bound(chain, delta) < math.inf


def test_a_complete_graph_mixes_in_closed_form():
    """Row i of P^k is 1/n + (−1/(n−1))^k (e_i − 1/n), with norm (n−1)^−k √(1 − 1/n)."""
    n, delta = 6, 0.01
    chain = Chain(matrix(nx.complete_graph(n)))
    expected = math.ceil(math.log(math.sqrt(1 - 1 / n) * n / delta) / math.log(n - 1))
    assert mixing_time(chain, delta) == expected
    assert paper_bound(1 / (n - 1), 1 / n, delta) == math.ceil(math.log(math.sqrt(2) * n / delta) / (1 - 1 / (n - 1)))


@pytest.mark.parametrize(
    "graph", [nx.cycle_graph(6), nx.path_graph(4), nx.star_graph(3), nx.path_graph(2), two_groups()]
)
def test_what_never_mixes_says_so(graph):
    chain = Chain(matrix(graph))
    times = [mixing_time(chain), variation_time(chain), weighted_bound(chain)]
    assert times == [math.inf] * 3
    assert paper_bound(chain.sigma, chain.stationary.min()) == math.inf
    cured = Chain(matrix(graph), 0.1)
    assert max(mixing_time(cured), variation_time(cured), weighted_bound(cured)) < math.inf


def test_a_client_that_is_left_for_good():
    chain = Chain(matrix(with_one_alone()))
    assert mixing_time(chain) == math.inf  # nobody ever comes back to it: π_* = 0
    assert 0 < variation_time(chain) < math.inf


def test_one_client_is_mixed_at_once():
    chain = Chain(matrix(nx.empty_graph(1)))
    assert (mixing_time(chain), variation_time(chain)) == (0, 0)


def test_a_slow_walk():
    """Long enough for rounding to add up over the squarings, if it did."""
    chain = Chain(matrix(nx.cycle_graph(201)))
    time = mixing_time(chain, 0.5)
    assert 10_000 < time <= paper_bound(chain.sigma, 1 / 201)
    power = np.linalg.matrix_power(chain.dense, int(time))
    before = np.linalg.matrix_power(chain.dense, int(time) - 1)
    assert np.linalg.norm(power - 1 / 201, axis=1).max() <= 0.5 / 201 < np.linalg.norm(before - 1 / 201, axis=1).max()


@pytest.mark.parametrize("delta", [0.0, 1.0])
def test_delta_lies_between(delta):
    with pytest.raises(ValueError, match="δ"):
        paper_bound(0.5, 0.1, delta)


# --- products -------------------------------------------------------------------------------------------------


def test_products_of_one_matrix_go_to_pi_and_not_to_one_over_n():
    chain = Chain(matrix(nx.lollipop_graph(4, 3)))
    phi = products([Law(chain.p)] * 400)
    assert phi.law == pytest.approx(chain.stationary, abs=1e-9)
    assert phi.apart[-1] < 1e-8
    assert phi.uneven[-1] == pytest.approx(np.abs(chain.stationary - 1 / 7).max(), abs=1e-8)
    assert phi.uneven[-1] > 0.05
    assert phi.rate == pytest.approx(chain.modulus, rel=1e-3)


def test_products_go_to_one_over_n_for_metropolis():
    chain = Chain(matrix(nx.lollipop_graph(4, 3), "metropolis"))
    phi = products([Law(chain.p)] * 300)
    assert phi.uneven[-1] < 1e-6
    assert phi.rate == pytest.approx(chain.modulus, rel=1e-3)


def test_the_lemma_holds_where_its_conditions_do():
    """Lazy on a ring is doubly stochastic with P_ii = ½; two halves of the ring by turns connect within two."""
    ring = [nx.Graph([(0, 1), (2, 3), (4, 5)]), nx.Graph([(1, 2), (3, 4), (5, 0)])]
    for graph in ring:
        graph.add_nodes_from(range(6))
    laws = [Law(matrix(graph, "lazy")) for graph in ring] * 30
    phi = products(laws)
    assert (phi.uneven <= lemma_bound(0.5, 2, 6, np.arange(1, 61)) + 1e-12).all()
    assert phi.uneven[-1] < 1e-6


def test_the_lemma_fails_without_staying():
    """An even cycle is doubly stochastic, connected and never forgets which half it is in."""
    phi = products([Law(matrix(nx.cycle_graph(6)))] * 1000)
    assert phi.uneven[-1] == pytest.approx(1 / 6)
    assert phi.apart[-1] == pytest.approx(0.5)
    assert math.isnan(phi.rate)


def test_products_go_forwards():
    """The law after P(1) then P(2) is p P(1) P(2), not p P(2) P(1)."""
    generator = np.random.default_rng(0)
    one, two = (a / a.sum(axis=1, keepdims=True) for a in generator.random((2, 4, 4)))
    phi = products([Law(one), Law(two)])
    assert phi.law == pytest.approx((one @ two).mean(axis=0))
    assert phi.law != pytest.approx((two @ one).mean(axis=0), abs=1e-3)
    assert phi.uneven[-1] == pytest.approx(np.abs(one @ two - 0.25).max())


def test_jumps_alone_bound_the_distance():
    laws = [Law(matrix(g), 0.2) for g in (nx.star_graph(4), nx.cycle_graph(5), nx.empty_graph(5))]
    phi = products([laws[k % 3] for k in range(30)])
    assert (phi.apart <= 0.8 ** np.arange(1, 31) + 1e-15).all()


# --- cover and hitting times ----------------------------------------------------------------------------------


def covered(p, jump=0.0, start=0, walks=3000, seed=1):
    return cover_time([Law(p, jump)], np.zeros(1, dtype=np.int64), np.full(walks, start), np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("graph", "rule", "expected"),
    [
        (nx.complete_graph(10), "degree", 9 * harmonic(9)),
        (nx.cycle_graph(9), "degree", 9 * 8 / 2),
        (nx.path_graph(7), "degree", 6**2),
        (nx.star_graph(6), "degree", 2 * 6 * harmonic(6) - 1),
        (nx.path_graph(7), "lazy", 2 * 6**2),
    ],
    ids=["complete", "cycle", "path from its end", "star from its hub", "lazy path"],
)
def test_cover_times_known_in_closed_form(graph, rule, expected):
    found = covered(matrix(graph, rule))
    wide = found.high - found.low  # about four standard errors
    assert found.mean - wide < expected < found.mean + wide
    assert wide < 0.12 * expected
    low, high = matthews(Chain(matrix(graph, rule)))
    assert low - 1e-9 <= expected <= high + 1e-9


def test_cover_with_jumps_only():
    """Everyone alone: every move goes anywhere, itself included; n·H − 1 draws beyond the start."""
    found = covered(matrix(nx.empty_graph(8)), 0.3)
    assert found.low - 1 < 8 * harmonic(7) < found.high + 1


def test_what_is_never_covered():
    assert covered(matrix(two_groups())).mean == math.inf
    assert covered(matrix(with_one_alone())).mean == math.inf
    assert matthews(Chain(matrix(two_groups()))) == (math.inf, math.inf)
    assert covered(matrix(two_groups()), 0.1).mean < math.inf


def test_graphs_by_turns_are_covered_together():
    """Neither of two graphs connects all four; both together do."""
    pairs = [nx.Graph([(0, 1), (2, 3)]), nx.Graph([(1, 2), (3, 0)])]
    for graph in pairs:
        graph.add_nodes_from(range(4))
    laws = [Law(matrix(g, "lazy")) for g in pairs]
    start, generator = np.zeros(500, dtype=np.int64), np.random.default_rng(0)
    assert cover_time(laws[:1], np.array([0]), start, generator).mean == math.inf
    found = cover_time(laws, np.array([0, 1]), start, generator)
    assert 3 < found.mean < 50
    again = cover_time(laws, np.array([0, 1]), start, np.random.default_rng(5))
    assert again == cover_time(laws, np.array([0, 1]), start, np.random.default_rng(5))


def test_hitting_times_in_closed_form():
    assert hitting_times(Chain(matrix(nx.path_graph(5))))[0, 4] == pytest.approx(16)
    i, j = np.indices((7, 7))
    assert hitting_times(Chain(matrix(nx.cycle_graph(7)))) == pytest.approx(abs(i - j) * (7 - abs(i - j)), abs=1e-9)
    with pytest.raises(ValueError, match="everywhere"):
        hitting_times(Chain(matrix(two_groups())))


def test_cover_of_one_client():
    assert covered(matrix(nx.empty_graph(1))).mean == 0
    assert matthews(Chain(matrix(nx.empty_graph(1)))) == (0, 0)


@pytest.mark.parametrize("jump", [0.0, 0.3])
def test_draws_follow_the_matrix(jump):
    p = matrix(nx.lollipop_graph(3, 2), "metropolis")
    law = Law(p, jump)
    drawn = law.draw(np.repeat(np.arange(5), 20_000), np.random.default_rng(3)).reshape(5, -1)
    shares = np.stack([np.bincount(row, minlength=5) / 20_000 for row in drawn])
    expected = law.matrix().toarray()
    assert expected == pytest.approx(Chain(p, jump).dense)
    assert not shares[expected == 0].any()
    assert shares == pytest.approx(expected, abs=5 * 0.5 / math.sqrt(20_000))


# --- formulas -------------------------------------------------------------------------------------------------


def test_formulas():
    assert spectral_limit(8) == pytest.approx(0.75)
    assert spectral_limit(1) == 0
    assert math.isnan(spectral_limit(0))
    assert least_beta(67.8) == pytest.approx(2 * 67.8**2 + 69.8)
    found = communication(20, tau=10, lowest=0.05, modulus=0.5, omega=0.01)
    assert found.walk == pytest.approx(101 / 0.5 / 0.01)
    assert found.symmetric == pytest.approx(math.log(20) ** 2 / 0.25 / 0.01)
    assert found.per_fedavg == pytest.approx(1000)
    assert found.apfl == pytest.approx(2000**0.75)
    never = communication(4, tau=math.inf, lowest=0.25, modulus=1.0, omega=0.01)
    assert (never.walk, never.symmetric) == (math.inf, math.inf)
