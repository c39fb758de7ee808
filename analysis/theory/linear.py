"""Linear algebra for matrices that are small, or large and mostly empty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import linalg

FloatArray = NDArray[np.float64]

DENSE = 500  # up to this size everything is computed; beyond it only the ends of a spectrum


def norm(a: Any, u: FloatArray, v: FloatArray) -> float:
    """The largest singular value of a − u vᵀ, a sparse."""
    if len(u) <= DENSE:
        return float(np.linalg.norm(a.toarray() - np.outer(u, v), 2))
    a = quick(a)
    operator = linalg.LinearOperator(
        a.shape,
        matvec=lambda x: a @ x.ravel() - u * (v @ x.ravel()),
        rmatvec=lambda x: a.T @ x.ravel() - v * (u @ x.ravel()),
        dtype=np.float64,
    )
    return float(linalg.svds(operator, 1, v0=_begin(len(u)), return_singular_vectors=False)[0])


def solve(a: Any, b: FloatArray) -> FloatArray:
    """x with a x = b, a sparse."""
    a = quick(a)
    return np.atleast_1d(np.linalg.solve(a, b) if isinstance(a, np.ndarray) else linalg.spsolve(a.tocsc(), b))


def symmetric_eigenvalues(a: Any) -> NDArray[Any]:
    """All of them; of a large matrix the two at either end."""
    if a.shape[0] <= DENSE:
        return np.linalg.eigvalsh(a.toarray())
    return _or_all(
        lambda: linalg.eigsh(a, 4, which="BE", v0=_begin(a.shape[0]), return_eigenvectors=False),
        lambda: np.linalg.eigvalsh(a.toarray()),
    )


def eigenvalues(p: Any) -> NDArray[Any]:
    """All of a transition matrix; of a large one 1, and of the others those of largest real part and modulus."""
    if p.shape[0] <= DENSE:
        return np.linalg.eigvals(p.toarray())

    def ends() -> NDArray[Any]:
        found: list[Any] = [[1.0]]
        for which in ("LR", "LM"):
            values = linalg.eigs(quick(p), 3, which=which, v0=_begin(p.shape[0]), return_eigenvectors=False)
            found.append(np.delete(values, np.abs(values - 1).argmin()))
        return np.concatenate(found)

    return _or_all(ends, lambda: np.linalg.eigvals(p.toarray()))


def quick(a: Any) -> Any:
    """A sparse matrix as is quicker to work with: still sparse only if most of it is empty."""
    return a if a.nnz < 0.1 * a.shape[0] * a.shape[1] else a.toarray()


def _begin(n: int) -> FloatArray:
    """Where iterations begin: always the same, so that results are."""
    return np.random.default_rng(0).normal(size=n)


def _or_all(ends: Callable[[], NDArray[Any]], everything: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """Eigenvalues at the ends by iteration, and all of them where that does not converge."""
    try:
        return ends()
    except linalg.ArpackNoConvergence:
        return everything()
