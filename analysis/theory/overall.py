"""The theory of a complete run, from all of its P(k), and a test of whether the vehicle followed them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy.sparse.csgraph import connected_components

from fedmule.analysis.theory.chain import FloatArray, IntArray, contraction
from fedmule.analysis.theory.formulas import Communication, communication
from fedmule.analysis.theory.linear import DENSE
from fedmule.analysis.theory.mixing import Products, lemma_bound, products
from fedmule.analysis.theory.snapshots import Snapshot
from fedmule.analysis.theory.walks import Estimate, cover_time, draw_walks, matthews, visit_counts

WALKS = 999  # simulated walks, to see what is due to chance
COVERS = 200  # simulated walks for the cover time
LONGEST_PRODUCT = 1000  # matrices multiplied at most
SOME = 50  # starts for which products are computed with more than DENSE clients


@dataclass(frozen=True)
class Chance:
    """Comparison of the run's visits with those of walks drawn from the same P(k)."""

    distance: float  # total variation between the run's shares of visits and π
    expected: float  # its mean over the simulated walks
    low: float
    high: float  # 95 % of the simulated walks lie between low and high
    visits: FloatArray  # [2,n] bounds of the middle 95 % of each client's visits in the simulated walks
    p: float  # two-sided p-value of the run's Σ ((visits − mean)/spread)² among the simulated walks


@dataclass(frozen=True)
class OverallWalk:
    """What all P(k) of a run together imply for its walk."""

    stationary: FloatArray  # [n] mean π of P(k) over the moves of the run
    products: Products
    smallest: float  # η: smallest positive entry of any P(k)
    window: float  # Q: the graphs of any Q consecutive moves together connect all clients; ∞ if they never do
    lemma: FloatArray  # [K] bound of the paper's lemma on |Φ_ij − 1/n|
    lemma_holds: bool  # whether its conditions hold: doubly stochastic, P_ii > 0, always the same clients
    jump_bound: FloatArray  # [K] (1 − jump)^k: bound on `products.apart` from jumps alone
    most_row_sum: float  # largest row sum of P_max; 1 only if P never changes
    max_sigma: float  # σ(P_max)
    cover: Estimate  # moves to visit everyone along the run's P(k), which repeat
    matthews: tuple[float, float]  # bounds on the mean cover time on the last graph; nan beyond DENSE clients
    chance: Chance | None  # None if there were no moves
    communication: Communication  # from the last snapshot


def in_force(snapshots: Sequence[Snapshot], visits: IntArray) -> IntArray:
    """Index of the snapshot whose P the vehicle left each visit by: the last one so far, or else the first."""
    at = np.array([s.visit for s in snapshots])
    return np.maximum(np.searchsorted(at, visits, side="right") - 1, 0)


def overall_walk(
    snapshots: Sequence[Snapshot],
    walks: Sequence[tuple[IntArray, IntArray]],
    jump: float,
    generator: np.random.Generator,
    tau: float,
    omega: float,
    delta: float,
) -> OverallWalk:
    """Combine all snapshots. `walks`: each vehicle's visits, by number and client; `tau`: the last mixing time."""
    last = snapshots[-1].chain
    visits = np.sort(np.concatenate([number for number, _ in walks]))
    order = in_force(snapshots, visits[:-1] if len(visits) > 1 else visits)
    stationary = np.mean([snapshots[k].stationary for k in order], axis=0)
    most_row_sum, max_sigma = _p_max(snapshots, jump)
    phi = _products(snapshots, order)
    smallest = min(s.chain.smallest for s in snapshots)
    window = 1.0 if jump > 0 else _window(snapshots, order)
    moves = np.arange(1.0, len(phi.apart) + 1)
    ever = np.unique(np.concatenate([s.members for s in snapshots]))
    start = generator.choice(snapshots[0].members, COVERS)
    lowest = float(last.stationary.min())
    return OverallWalk(
        stationary=stationary,
        products=phi,
        smallest=smallest,
        window=window,
        lemma=lemma_bound(smallest, window, len(ever), moves),
        lemma_holds=math.isfinite(window) and all(_meets_the_lemma(s, len(ever)) for s in snapshots),
        jump_bound=(1 - jump) ** moves,
        most_row_sum=most_row_sum,
        max_sigma=max_sigma,
        cover=cover_time([s.law for s in snapshots], order, start, generator, ever),
        matthews=matthews(last) if last.n <= DENSE else (math.nan, math.nan),
        chance=_chance(snapshots, walks, stationary, generator),
        communication=communication(last.n, tau, lowest, last.modulus, omega, delta),
    )


def _p_max(snapshots: Sequence[Snapshot], jump: float) -> tuple[float, float]:
    """Largest row sum of P_max, and σ(P_max). Jumps to constant members add `jump` to the former, 0 to the latter."""
    same = all(np.array_equal(s.members, snapshots[0].members) for s in snapshots)
    matrices = [s.law.p if same else s.law.matrix() for s in snapshots]
    p_max = reduce(lambda a, b: a.maximum(b), matrices)
    share = jump if same else 0.0
    return (1 - share) * float(p_max.sum(axis=1).max()) + share, (1 - share) * contraction(p_max)


def _products(snapshots: Sequence[Snapshot], order: IntArray) -> Products:
    n = snapshots[0].law.n
    starts = None if n <= DENSE else np.linspace(0, n - 1, SOME).astype(np.int64)
    return products((snapshots[k].law for k in order[:LONGEST_PRODUCT]), starts)


def _meets_the_lemma(snapshot: Snapshot, ever: int) -> bool:
    """Whether P is doubly stochastic (π uniform), every P_ii > 0 and every client a member."""
    chain = snapshot.chain
    even = np.allclose(np.asarray(chain.p.sum(axis=0)), 1, atol=1e-9)
    return bool(even and (chain.jump > 0 or (chain.p.diagonal() > 0).all()) and chain.n == ever)


def _window(snapshots: Sequence[Snapshot], order: IntArray) -> float:
    """Q: the fewest consecutive moves whose graphs together connect all clients, wherever they begin."""
    used, first, held = np.unique(order, return_index=True, return_counts=True)
    longest = 0.0
    for begin, k in enumerate(used):
        union = snapshots[k].law.p
        for end in range(begin, len(used)):
            union = union + snapshots[used[end]].law.p
            if connected_components(union, directed=True, connection="strong")[0] == 1:
                began = first[begin] + (
                    held[begin] - 1 if end > begin else 0
                )  # worst case: from the last move with its P
                longest = max(longest, float(first[end] - began + 1))
                break
        else:
            break  # the log ends too soon to tell from here on
    return longest or math.inf


def _chance(
    snapshots: Sequence[Snapshot],
    walks: Sequence[tuple[IntArray, IntArray]],
    stationary: FloatArray,
    generator: np.random.Generator,
) -> Chance | None:
    """Compare the run's walks with simulated ones that start at the same clients and follow the same P(k)."""
    n, total = len(stationary), sum(len(clients) for _, clients in walks)
    if total < 2 * len(walks):
        return None
    laws = [s.law for s in snapshots]
    counts, simulated = np.zeros(n), np.zeros((WALKS, n))
    for number, clients in walks:
        counts += np.bincount(clients, minlength=n)
        start = np.full(WALKS, clients[0])
        simulated += visit_counts(draw_walks(laws, in_force(snapshots, number[:-1]), start, generator), n)
    distance = float(np.abs(counts / total - stationary).sum() / 2)
    by_chance = np.abs(simulated / total - stationary).sum(axis=1) / 2
    low, high = np.quantile(by_chance, [0.025, 0.975])
    visits = np.quantile(simulated, [0.025, 0.975], axis=0)
    return Chance(distance, float(by_chance.mean()), float(low), float(high), visits, _rarity(counts, simulated))


def _rarity(counts: FloatArray, simulated: FloatArray) -> float:
    """Two-sided p-value of Σ ((visits − mean)/spread)², visits [n], among simulated walks [w,n]."""
    mean, variance = simulated.mean(axis=0), simulated.var(axis=0) + 1 / len(simulated)
    own = ((counts - mean) ** 2 / variance).sum()
    others = ((simulated - mean) ** 2 / variance).sum(axis=1)
    tail = min((others >= own).sum(), (others <= own).sum()) + 1
    return min(1.0, 2 * float(tail) / (len(simulated) + 1))
