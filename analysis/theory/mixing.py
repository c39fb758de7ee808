"""How soon a walk forgets where it began: mixing times τ(δ), and products Φ of changing matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from fedmule.analysis.theory.chain import Chain, FloatArray, IntArray
from fedmule.analysis.theory.walks import Law

LONGEST = 60  # squarings of P before a mixing time counts as infinite


def paper_bound(sigma: float, lowest: float, delta: float = 0.5) -> float:
    """τ(δ) = ⌈ ln(√2/(δ π_*)) / (1 − σ(P)) ⌉ with π_* the lowest π_i; ∞ where σ(P) ≥ 1 or π_* = 0.

    After so many moves ||e_iᵀP^k − π|| ≤ σ^k ||e_i − π|| ≤ δ π_* from every start, for any P with σ(P) < 1.
    """
    return _moves(math.sqrt(2), sigma, lowest, delta)


def weighted_bound(chain: Chain, delta: float = 0.5) -> float:
    """The same where σ(P) ≥ 1: ⌈ ln(√(π^*/π_*)/(δ π_*)) / (1 − σ_π) ⌉ with σ_π in the norm Σ f_i²/π_i."""
    pi = chain.stationary
    lowest = float(pi.min())
    return _moves(math.sqrt(pi.max() / lowest), chain.weighted_sigma, lowest, delta) if lowest > 0 else math.inf


def _moves(scale: float, rate: float, lowest: float, delta: float) -> float:
    if not 0 < delta < 1:
        raise ValueError(f"δ must lie between 0 and 1: {delta}")
    if lowest <= 0 or not rate < 1 - 1e-12:
        return math.inf
    return float(math.ceil(math.log(scale / (delta * lowest)) / (1 - rate)))


def mixing_time(chain: Chain, delta: float = 0.5) -> float:
    """The paper's τ(δ) exactly: the smallest k with ||row i of P^k − π||₂ ≤ δ π_* for every i; ∞ if there is none."""
    lowest = float(chain.stationary.min())
    if not chain.ergodic or lowest <= 0:
        return math.inf
    return _first(chain.dense, lambda power: _apart(power - chain.stationary, 2) <= delta * lowest)


def variation_time(chain: Chain, delta: float = 0.25) -> float:
    """The smallest k at which total variation from π is ≤ δ from every start; ∞ if there is none."""
    if not chain.settles:
        return math.inf
    return _first(chain.dense, lambda power: _apart(power - chain.stationary, 1) / 2 <= delta)


def _apart(difference: FloatArray, order: int) -> float:
    """The largest norm of a row."""
    return float(np.linalg.norm(difference, order, axis=1).max())


def _first(p: FloatArray, close: Callable[[FloatArray], bool]) -> float:
    """The smallest k with close(P^k). Distances from π only fall, so squaring and then halving finds it."""
    if close(np.eye(len(p))):
        return 0.0
    powers = [p]
    while not close(powers[-1]):
        if len(powers) > LONGEST:
            return math.inf
        powers.append(_stochastic(powers[-1] @ powers[-1]))
    if len(powers) == 1:
        return 1.0
    far, k = powers[-2], 2 ** (len(powers) - 2)
    for exponent in range(len(powers) - 3, -1, -1):
        further = _stochastic(far @ powers[exponent])
        if not close(further):
            far, k = further, k + 2**exponent
    return float(k + 1)


def _stochastic(p: FloatArray) -> FloatArray:
    return np.asarray(p / p.sum(axis=1, keepdims=True))  # rounding would add up over the squarings


# --- products ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Products:
    """Φ(k, l) = P(l) P(l+1) … P(k) for k = l, l + 1, …: row i is the law of where a walk begun at i is then."""

    apart: FloatArray  # [K] largest total variation between a row and the law of a walk begun anywhere
    uneven: FloatArray  # [K] largest |Φ_ij − 1/n|, which the paper lets go to 0
    law: FloatArray  # [n] of a walk begun anywhere, at the end: every row's limit where the rows agree
    rate: float  # r of apart ≈ c r^k, fitted; nan where it falls too fast or not at all


def products(laws: Iterable[Law], starts: IntArray | None = None) -> Products:
    """Multiply P(l), P(l+1), … forwards; `starts` restricts it to some rows (the default is all of them)."""
    rows, law = np.empty((0, 0)), np.empty((1, 0))
    apart: list[float] = []
    uneven: list[float] = []
    for p in laws:
        if not apart:
            rows, law = np.eye(p.n) if starts is None else np.eye(p.n)[starts], np.full((1, p.n), 1 / p.n)
        rows, law = p.after(rows), p.after(law)
        apart.append(_apart(rows - law, 1) / 2)
        uneven.append(float(np.abs(rows - 1 / p.n).max()))
    return Products(np.array(apart), np.array(uneven), law[0], geometric_rate(np.array(apart)))


def geometric_rate(apart: FloatArray) -> float:
    """r of a least-squares line through ln(distance), between a tenth of the first and where rounding begins."""
    k = np.arange(1, len(apart) + 1)
    used = (apart > 1e-11) & (apart < 0.1 * apart[:1].max(initial=1.0))
    if used.sum() < 3:
        return math.nan
    return float(np.exp(np.polyfit(k[used], np.log(apart[used]), 1)[0]))


def lemma_bound(smallest: float, window: float, n: int, moves: FloatArray) -> FloatArray:
    """(1 − η/(4n²))^(⌈moves/Q⌉ − 2): what the paper's lemma lets |Φ_ij − 1/n| be.

    η: the smallest positive entry of any P(k); Q: within so many moves all P(k) together connect everyone. It holds
    for doubly stochastic P(k) with P_ii ≥ η only.
    """
    return np.asarray((1 - smallest / (4 * n * n)) ** (np.ceil(moves / window) - 2))
