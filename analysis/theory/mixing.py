"""How quickly a walk forgets its start: mixing times τ(δ), and products Φ of changing matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from fedmule.analysis.theory.chain import Chain, FloatArray, IntArray
from fedmule.analysis.theory.walks import Law

LONGEST = 60  # squarings of P after which a mixing time counts as infinite


def paper_bound(sigma: float, lowest: float, delta: float = 0.5) -> float:
    """Bound τ(δ) = ⌈ ln(√2/(δ π_*)) / (1 − σ(P)) ⌉ with π_* the lowest π_i; ∞ if σ(P) ≥ 1 or π_* = 0.

    After that many moves ||e_iᵀP^k − π|| ≤ σ^k ||e_i − π|| ≤ δ π_* from every start, for any P with σ(P) < 1.
    """
    return _moves(math.sqrt(2), sigma, lowest, delta)


def weighted_bound(chain: Chain, delta: float = 0.5) -> float:
    """Bound for σ(P) ≥ 1 as well: ⌈ ln(√(π^*/π_*)/(δ π_*)) / (1 − σ_π) ⌉ with σ_π in the norm Σ f_i²/π_i."""
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
    """Exact τ(δ) of the paper: the smallest k with ||row i of P^k − π||₂ ≤ δ π_* for every i; ∞ if there is none."""
    lowest = float(chain.stationary.min())
    if not chain.ergodic or lowest <= 0:
        return math.inf
    return _first(chain.dense, lambda power: _apart(power - chain.stationary, 2) <= delta * lowest)


def variation_time(chain: Chain, delta: float = 0.25) -> float:
    """Smallest k at which the total variation from π is ≤ δ from every start; ∞ if there is none."""
    if not chain.settles:
        return math.inf
    return _first(chain.dense, lambda power: _apart(power - chain.stationary, 1) / 2 <= delta)


def _apart(difference: FloatArray, order: int) -> float:
    """Largest norm of a row."""
    return float(np.linalg.norm(difference, order, axis=1).max())


def _first(p: FloatArray, close: Callable[[FloatArray], bool]) -> float:
    """Smallest k with close(P^k). Distances from π never grow, so repeated squaring and then bisection find it."""
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
    return np.asarray(p / p.sum(axis=1, keepdims=True))  # so that rounding does not accumulate over the squarings


# --- products ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Products:
    """Products Φ(k, l) = P(l) P(l+1) … P(k) for k = l, l + 1, …: row i is the distribution of a walk started at i."""

    apart: FloatArray  # [K] largest total variation between a row and the distribution from a uniformly random start
    uneven: FloatArray  # [K] largest |Φ_ij − 1/n|, which the paper claims tends to 0
    law: FloatArray  # [n] final distribution from a uniformly random start: the limit of every row where rows agree
    rate: float  # r of the fit apart ≈ c r^k; nan where it falls too fast or not at all


def products(laws: Iterable[Law], starts: IntArray | None = None) -> Products:
    """Multiply P(l), P(l+1), … forwards. `starts` selects rows; the default is all of them."""
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
    """r of a least-squares line through ln(distance), from a tenth of the first distance down to rounding error."""
    k = np.arange(1, len(apart) + 1)
    used = (apart > 1e-11) & (apart < 0.1 * apart[:1].max(initial=1.0))
    if used.sum() < 3:
        return math.nan
    return float(np.exp(np.polyfit(k[used], np.log(apart[used]), 1)[0]))


def lemma_bound(smallest: float, window: float, n: int, moves: FloatArray) -> FloatArray:
    """Bound of the paper's lemma on |Φ_ij − 1/n|: (1 − η/(4n²))^(⌈moves/Q⌉ − 2).

    η is the smallest positive entry of any P(k); within any Q moves the P(k) together connect all clients. The lemma
    holds only for doubly stochastic P(k) with P_ii ≥ η.
    """
    return np.asarray((1 - smallest / (4 * n * n)) ** (np.ceil(moves / window) - 2))
