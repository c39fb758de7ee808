"""Random walks drawn from transition matrices, hitting times and cover times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from fedmule.analysis.theory.chain import Chain, FloatArray, IntArray
from fedmule.analysis.theory.linear import Matrix, Sparse

LONGEST = 200_000  # moves after which a walk that has not covered everyone is given up


class Law:
    """Transition law P = (1 − jump)·p plus jumps to all members alike, which are never added to the matrix."""

    def __init__(self, p: Matrix, jump: float = 0.0, members: IntArray | None = None) -> None:
        self.p, self.jump = sp.csr_array(p), jump
        self.n = int(self.p.shape[0])
        self.members = np.arange(self.n) if members is None else members
        self._anywhere = np.zeros(self.n)
        self._anywhere[self.members] = 1 / len(self.members)
        self._first, self._last = self.p.indptr[:-1], self.p.indptr[1:] - 1  # entries of each row
        self._sums = np.concatenate([[0.0], np.cumsum(self.p.data)])

    def after(self, laws: FloatArray) -> FloatArray:
        """Move distributions of walks [w,n] on by one step."""
        return np.asarray((1 - self.jump) * (laws @ self.p) + self.jump * self._anywhere)

    def draw(self, here: IntArray, generator: np.random.Generator) -> IntArray:
        """Draw the next clients [w] from the current ones [w]: one search in the cumulative sum of all rows."""
        leap, choice = generator.random((2, len(here)))
        low, high = self._sums[self._first[here]], self._sums[self._last[here] + 1]
        position = np.searchsorted(self._sums, low + (high - low) * choice, side="right") - 1
        near: IntArray = self.p.indices[np.minimum(position, self._last[here])]
        anywhere = self.members[(choice * len(self.members)).astype(np.int64)]
        return np.where(leap < self.jump, anywhere, near)

    def matrix(self) -> Sparse:
        """P as a sparse matrix [n,n], jumps included."""
        if not self.jump:
            return self.p
        return sp.csr_array((1 - self.jump) * self.p.toarray() + self.jump * self._anywhere)


def draw_walks(laws: Sequence[Law], order: IntArray, start: IntArray, generator: np.random.Generator) -> IntArray:
    """Draw walks [w,K+1] from starts [w]; move k follows laws[order[k]]."""
    walks = np.empty((len(start), len(order) + 1), dtype=np.int64)
    walks[:, 0] = here = start
    for k, which in enumerate(order):
        walks[:, k + 1] = here = laws[which].draw(here, generator)
    return walks


def visit_counts(walks: IntArray, n: int) -> IntArray:
    """Count the visits of each walk [w,K] to each client: [w,n]."""
    flat = walks + n * np.arange(len(walks))[:, None]
    return np.bincount(flat.ravel(), minlength=n * len(walks)).reshape(len(walks), n)


@dataclass(frozen=True)
class Estimate:
    """Mean over simulated walks with its 95 % confidence interval."""

    mean: float
    low: float
    high: float

    @staticmethod
    def of(values: FloatArray) -> Estimate:
        """Estimate the mean of a sample."""
        from scipy.special import stdtrit

        n, mean = len(values), float(values.mean())
        if n < 2 or not math.isfinite(mean):
            return Estimate(mean, mean, mean)
        width = float(stdtrit(n - 1, 0.975) * values.std(ddof=1) / math.sqrt(n))
        return Estimate(mean, mean - width, mean + width)


def cover_time(
    laws: Sequence[Law],
    order: IntArray,
    start: IntArray,
    generator: np.random.Generator,
    wanted: IntArray | None = None,
) -> Estimate:
    """Mean number of moves until all `wanted` clients (by default all) are visited, from starts [w], which count.

    Move k follows laws[order[k]]; `order` repeats. ∞ if covering them is not certain, or if one of the walks has not
    done so within LONGEST moves.
    """
    n = laws[0].n
    wanted = np.arange(n) if wanted is None else wanted
    if not _surely(laws, wanted):
        return Estimate(math.inf, math.inf, math.inf)
    missing = np.zeros((len(start), n), dtype=bool)
    missing[:, wanted] = True
    left, took = np.full(len(start), len(wanted)), np.full(len(start), math.inf)
    walk, here = np.arange(len(start)), start.astype(np.int64)
    for k in range(LONGEST):
        left[walk] -= missing[walk, here]
        missing[walk, here] = False
        took[walk[left[walk] == 0]] = k
        on = left[walk] > 0
        if not on.any():
            break
        walk, here = walk[on], here[on]
        here = laws[order[k % len(order)]].draw(here, generator)
    return Estimate.of(took)


def _surely(laws: Sequence[Law], wanted: IntArray) -> bool:
    """Whether the laws together lead to all of these clients infinitely often."""
    if all(law.jump > 0 for law in laws):
        return not np.setdiff1d(wanted, np.concatenate([law.members for law in laws])).size
    closed = Chain(sum(law.matrix() for law in laws) / len(laws)).closed
    return len(closed) == 1 and not np.setdiff1d(wanted, closed[0].clients).size


def hitting_times(chain: Chain) -> FloatArray:
    """Mean moves H [n,n] from i until the first at j, (Z_jj − Z_ij)/π_j with Z = (I − P + 1π)⁻¹; P irreducible."""
    if len(chain.classes) > 1:
        raise ValueError("hitting times need a walk that can get from everywhere to everywhere (an irreducible P)")
    pi = chain.stationary
    z = np.linalg.inv(np.eye(chain.n) - chain.dense + pi)
    return np.asarray((np.diag(z) - z) / pi)


def matthews(chain: Chain) -> tuple[float, float]:
    """Matthews' bounds on the mean cover time: the shortest and longest hitting time × (1 + ½ + … + 1/(n − 1))."""
    if chain.n == 1:
        return 0.0, 0.0
    if len(chain.classes) > 1:
        return math.inf, math.inf
    hit = hitting_times(chain)[~np.eye(chain.n, dtype=bool)]
    harmonic = float((1 / np.arange(1, chain.n)).sum())
    return float(hit.min()) * harmonic, float(hit.max()) * harmonic
