"""What the P(k) of a run say of its walk as a whole, and whether the walk did as they say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy.sparse.csgraph import connected_components

from fedmule.analysis.theory.bounds import Communication, communication
from fedmule.analysis.theory.chain import FloatArray, IntArray, contraction
from fedmule.analysis.theory.linear import DENSE
from fedmule.analysis.theory.mixing import Products, lemma_bound, products
from fedmule.analysis.theory.snapshots import Snapshot
from fedmule.analysis.theory.walks import Estimate, cover_time, draw_walks, matthews, visit_counts

WALKS = 999  # simulated, for what is to be expected by chance
COVERS = 200  # walks until everyone was visited
LONGEST_PRODUCT = 1000  # moves
SOME = 50  # starts from which products are followed where there are more than DENSE clients


@dataclass(frozen=True)
class Chance:
    """The run's visits against those of walks drawn from the same P(k)."""

    distance: float  # total variation between the run's shares of visits and π
    expected: float  # its mean over the simulated walks
    low: float
    high: float  # 95 % of them lie between
    visits: FloatArray  # [2,n] visits between which 95 % of them come to each client
    p: float  # how rare the run's Σ ((visits − mean)/spread)² is among them, large or small (two-sided)


@dataclass(frozen=True)
class Whole:
    """What P(k) says of a whole run."""

    stationary: FloatArray  # [n] mean of the π of P(k) over the moves of the run
    products: Products
    smallest: float  # η: the smallest positive entry of any P(k)
    window: float  # Q: within so many moves all graphs together connect everyone; ∞ if they never do
    lemma: FloatArray  # [K] the bound of the paper's lemma on |Φ_ij − 1/n|
    lemma_holds: bool  # whether its conditions do: doubly stochastic, P_ii > 0, always the same clients
    jump_bound: FloatArray  # [K] (1 − jump)^k: what jumps alone make of the rows' distance
    most_row_sum: float  # of P_max; 1 only if P never changes
    max_sigma: float  # σ(P_max)
    cover: Estimate  # moves, along the run's own P(k), begun again where they end
    matthews: tuple[float, float]  # bounds of the mean cover time on the last graph; nan beyond DENSE clients
    chance: Chance | None  # None where there were no moves
    communication: Communication  # by the last snapshot


def in_force(snapshots: Sequence[Snapshot], visits: IntArray) -> IntArray:
    """Which snapshot's P the vehicle left each of these visits by: the last so far, or the first."""
    at = np.array([s.visit for s in snapshots])
    return np.maximum(np.searchsorted(at, visits, side="right") - 1, 0)


def whole(
    snapshots: Sequence[Snapshot],
    walks: Sequence[tuple[IntArray, IntArray]],
    jump: float,
    generator: np.random.Generator,
    tau: float,
    omega: float,
    delta: float,
) -> Whole:
    """`walks`: of each vehicle its visits, by number and client. τ: the mixing time of the last snapshot."""
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
    return Whole(
        stationary=stationary,
        products=phi,
        smallest=smallest,
        window=window,
        lemma=lemma_bound(smallest, window, len(ever), moves),
        lemma_holds=math.isfinite(window) and all(_as_the_lemma_asks(s, len(ever)) for s in snapshots),
        jump_bound=(1 - jump) ** moves,
        most_row_sum=most_row_sum,
        max_sigma=max_sigma,
        cover=cover_time([s.law for s in snapshots], order, start, generator, ever),
        matthews=matthews(last) if last.n <= DENSE else (math.nan, math.nan),
        chance=_chance(snapshots, walks, stationary, generator),
        communication=communication(last.n, tau, lowest, last.modulus, omega, delta),
    )


def _p_max(snapshots: Sequence[Snapshot], jump: float) -> tuple[float, float]:
    """The largest sum of a row of P_max, and σ(P_max); jumps that are always the same add jump and nothing to them."""
    same = all(np.array_equal(s.members, snapshots[0].members) for s in snapshots)
    matrices = [s.law.p if same else s.law.matrix() for s in snapshots]
    p_max = reduce(lambda a, b: a.maximum(b), matrices)
    share = jump if same else 0.0
    return (1 - share) * float(p_max.sum(axis=1).max()) + share, (1 - share) * contraction(p_max)


def _products(snapshots: Sequence[Snapshot], order: IntArray) -> Products:
    n = snapshots[0].law.n
    starts = None if n <= DENSE else np.linspace(0, n - 1, SOME).astype(np.int64)
    return products((snapshots[k].law for k in order[:LONGEST_PRODUCT]), starts)


def _as_the_lemma_asks(snapshot: Snapshot, ever: int) -> bool:
    """Doubly stochastic, so that π is even; everyone may stay; and everyone is there."""
    chain = snapshot.chain
    even = np.allclose(np.asarray(chain.p.sum(axis=0)), 1, atol=1e-9)
    return bool(even and (chain.jump > 0 or (chain.p.diagonal() > 0).all()) and chain.n == ever)


def _window(snapshots: Sequence[Snapshot], order: IntArray) -> float:
    """Q: the fewest moves within which, wherever one begins, all graphs together connect everyone."""
    used, first, held = np.unique(order, return_index=True, return_counts=True)
    longest = 0.0
    for begin, k in enumerate(used):
        union = snapshots[k].law.p
        for end in range(begin, len(used)):
            union = union + snapshots[used[end]].law.p
            if connected_components(union, directed=True, connection="strong")[0] == 1:
                began = first[begin] + (held[begin] - 1 if end > begin else 0)  # at worst by the last move of its P
                longest = max(longest, float(first[end] - began + 1))
                break
        else:
            break  # from here on the log ends too soon to tell
    return longest or math.inf


def _chance(
    snapshots: Sequence[Snapshot],
    walks: Sequence[tuple[IntArray, IntArray]],
    stationary: FloatArray,
    generator: np.random.Generator,
) -> Chance | None:
    """Compare the run's walks with simulated ones that begin where they did and move by the same P(k)."""
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
    """Two-sided p of Σ ((visits − mean)/spread)² [n] among simulated walks [w,n], which give mean and spread."""
    mean, variance = simulated.mean(axis=0), simulated.var(axis=0) + 1 / len(simulated)
    own = ((counts - mean) ** 2 / variance).sum()
    others = ((simulated - mean) ** 2 / variance).sum(axis=1)
    tail = min((others >= own).sum(), (others <= own).sum()) + 1
    return min(1.0, 2 * float(tail) / (len(simulated) + 1))
