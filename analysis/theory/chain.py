"""A Markov chain on n clients from its transition matrix: classes, periods, stationary distribution, spectrum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, connected_components

from fedmule.analysis.theory.linear import (
    DENSE,
    Matrix,
    Sparse,
    eigenvalues,
    norm,
    solve,
    symmetric_eigenvalues,
)

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class CommunicatingClass:
    """Set of clients that the walk can reach from each other."""

    clients: IntArray  # [m] ascending
    closed: bool  # the walk never leaves it; from an open class it sooner or later departs for good
    period: int  # every return takes a multiple of this many moves; 0 if no return is possible


class Chain:
    """Markov chain with P = (1 − jump)·p + jump/n, where p [n,n] is an array or a sparse matrix whose rows sum to 1.

    Each value is computed once, on first use. The jumps are never added to the matrix, so p may be large and sparse.
    A single client has λ₂ = modulus = σ = 0.
    """

    def __init__(self, p: Matrix, jump: float = 0.0) -> None:
        self.p, self.jump = sp.csr_array(p), jump
        self.p.eliminate_zeros()
        rows = np.asarray(self.p.sum(axis=1))
        if self.p.shape[0] != self.p.shape[1] or not self.n or self.p.data.min(initial=0.0) < 0:
            raise ValueError(f"a transition matrix is square, with no negative entries: this one is {self.p.shape}")
        if not np.allclose(rows, 1, atol=1e-9):
            raise ValueError(f"rows of a transition matrix sum to 1: row {np.abs(rows - 1).argmax()} does not")
        if not 0 <= jump <= 1:
            raise ValueError(f"a probability of jumps lies between 0 and 1: {jump}")

    @property
    def n(self) -> int:
        """Number of clients."""
        return int(self.p.shape[0])

    @property
    def dense(self) -> FloatArray:
        """P [n,n] as an array, jumps included."""
        return np.asarray((1 - self.jump) * self.p.toarray() + self.jump / self.n)

    @cached_property
    def smallest(self) -> float:
        """Smallest positive entry of P."""
        empty = self.p.nnz < self.n**2
        return (1 - self.jump) * (0.0 if empty and self.jump else float(self.p.data.min())) + self.jump / self.n

    # --- classes -------------------------------------------------------------------------------------------

    @cached_property
    def classes(self) -> tuple[CommunicatingClass, ...]:
        """Communicating classes: closed ones first, then by lowest client."""
        if self.jump > 0:
            return (CommunicatingClass(np.arange(self.n), True, 1),)
        count, label = connected_components(self.p, directed=True, connection="strong")
        rows, columns = self.p.nonzero()
        left = np.zeros(count, dtype=bool)
        left[label[rows[label[rows] != label[columns]]]] = True
        members = [np.flatnonzero(label == c) for c in range(count)]
        found = [CommunicatingClass(m, not left[c], self._period(m)) for c, m in enumerate(members)]
        return tuple(sorted(found, key=lambda c: (not c.closed, c.clients[0])))

    def _period(self, members: IntArray) -> int:
        """Greatest common divisor of level(i) + 1 − level(j) over moves i → j, with breadth-first levels."""
        part = self.p[members][:, members]
        if part.diagonal().any():
            return 1
        order, before = breadth_first_order(part, 0)
        level = np.zeros(len(members), dtype=np.int64)
        for client in order[1:]:
            level[client] = level[before[client]] + 1
        rows, columns = part.nonzero()
        return int(np.gcd.reduce(level[rows] + 1 - level[columns])) if len(rows) else 0

    @property
    def closed(self) -> tuple[CommunicatingClass, ...]:
        """Communicating classes that the walk never leaves."""
        return tuple(c for c in self.classes if c.closed)

    @property
    def period(self) -> int:
        """Least common multiple of the closed classes' periods; above 1 the walk cycles for ever."""
        return int(np.lcm.reduce([c.period for c in self.closed]))

    @property
    def settles(self) -> bool:
        """Whether the distribution of visit k has the same limit from every start: one closed class, period 1."""
        return len(self.closed) == 1 and self.period == 1

    @property
    def ergodic(self) -> bool:
        """Whether the chain is irreducible and aperiodic: it settles, and returns to every client again and again."""
        return self.settles and len(self.classes) == 1

    # --- the stationary distribution -----------------------------------------------------------------------

    @cached_property
    def stationary(self) -> FloatArray:
        """Stationary distribution π [n], πP = π; with several closed classes, the limit from a random start."""
        start = np.full(self.n, 1 / self.n)
        if self.jump > 0:  # π = jump/n + (1 − jump) π p
            pi = solve(sp.eye_array(self.n) - (1 - self.jump) * self.p.T, self.jump * start)
            return np.asarray(pi / pi.sum())
        transient = np.setdiff1d(np.arange(self.n), np.concatenate([c.clients for c in self.closed]))
        if transient.size:  # expected visits to clients of open classes, then where the walk goes from them
            inside = self.p[transient][:, transient]
            start = start + self.p[transient].T @ solve(sp.eye_array(len(transient)) - inside.T, start[transient])
        pi = np.zeros(self.n)
        for c in self.closed:
            pi[c.clients] = start[c.clients].sum() * _stationary(self.p[c.clients][:, c.clients])
        return pi

    @cached_property
    def reversible(self) -> bool:
        """Whether detailed balance holds: π_i P_ij = π_j P_ji."""
        pi = self.stationary
        if self.jump > 0 and np.ptp(pi) > 1e-12:  # jumps balance only if π is uniform, or P is practically dense
            return self.n <= DENSE and bool(np.ptp((full := pi[:, None] * self.dense) - full.T) <= 1e-12)
        flow = sp.diags_array(pi) @ self.p
        return bool(abs(flow - flow.T).max() <= 1e-12)

    # --- the spectrum --------------------------------------------------------------------------------------

    @cached_property
    def _spectrum(self) -> tuple[float, float]:
        """λ₂ and the second-largest modulus; exactly 1 where the classes or periods imply it."""
        if self.n == 1:
            return 0.0, 0.0
        if self.jump > 0:  # every eigenvalue except the 1 is multiplied by 1 − jump
            second, modulus = Chain(self.p)._spectrum
            return (1 - self.jump) * second, (1 - self.jump) * modulus
        if self.reversible and (self.stationary > 0).all():
            values = symmetric_eigenvalues(_balanced(self.p, self.stationary))
        else:
            values = eigenvalues(self.p)
        values = np.delete(values, np.abs(values - 1).argmin())
        several = len(self.closed) > 1
        second = 1.0 if several else float(values.real.max())
        return second, 1.0 if several or self.period > 1 else float(np.abs(values).max())

    @property
    def second(self) -> float:
        """λ₂: largest real part among the eigenvalues other than the 1 that every P has; 1 if classes are separate."""
        return self._spectrum[0]

    @property
    def modulus(self) -> float:
        """Largest modulus among the eigenvalues other than that 1: the rate at which a walk forgets its start."""
        return self._spectrum[1]

    @property
    def gap(self) -> float:
        """Absolute spectral gap, 1 − modulus."""
        return 1 - self.modulus

    @cached_property
    def sigma(self) -> float:
        """σ(P) = sup ||fᵀP|| / ||f|| over f ⟂ 1. It can exceed 1."""
        return (1 - self.jump) * contraction(self.p)

    @cached_property
    def weighted_sigma(self) -> float:
        """σ in the norm Σ f_i²/π_i: never above 1, and the modulus if P is reversible. nan if some π_i = 0."""
        pi = self.stationary
        if (pi <= 0).any():
            return np.nan
        if self.n == 1 or self.reversible:
            return self.modulus
        root = np.sqrt(pi)
        return norm((1 - self.jump) * _balanced(self.p, pi), root, root - self.jump / self.n / root)


def contraction(p: Matrix) -> float:
    """σ of any square matrix, stochastic or not (P_max is not): the norm of p minus the mean of its rows."""
    p = sp.csr_array(p)
    n = p.shape[0]
    return 0.0 if n == 1 else norm(p, np.ones(n), np.asarray(p.sum(axis=0)) / n)


def _balanced(p: Sparse, pi: FloatArray) -> Sparse:
    """diag(√π) p diag(1/√π): has the eigenvalues of p, and is symmetric if p is reversible."""
    root = np.sqrt(pi)
    return sp.diags_array(root) @ p @ sp.diags_array(1 / root)


def _stationary(p: Sparse) -> FloatArray:
    """π of an irreducible P: solve x(I − P) = 0 with the last x = 1, then scale to sum 1."""
    n = p.shape[0]
    if n == 1:
        return np.ones(1)
    a = sp.csr_array((sp.eye_array(n) - p).T)
    x = np.append(solve(a[:-1, :-1], -a[:-1, [-1]].toarray().ravel()), 1.0)
    return np.asarray(x / x.sum())
