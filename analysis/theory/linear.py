"""Linear algebra for matrices that are small, or large and sparse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import linalg

FloatArray = NDArray[np.float64]
Spectrum = NDArray[Any]  # of real or complex numbers
Sparse: TypeAlias = Any  # one of scipy's sparse arrays
Matrix: TypeAlias = Any  # the same, or a numpy array

DENSE = 500  # clients up to which everything is computed; beyond, only the ends of a spectrum


def norm(a: Sparse, u: FloatArray, v: FloatArray) -> float:
    """Largest singular value of a − u vᵀ, with a sparse."""
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


def solve(a: Sparse, b: FloatArray) -> FloatArray:
    """Solve a x = b, with a sparse."""
    a = quick(a)
    return np.atleast_1d(np.linalg.solve(a, b) if isinstance(a, np.ndarray) else linalg.spsolve(a.tocsc(), b))


def symmetric_eigenvalues(a: Sparse) -> Spectrum:
    """Eigenvalues of a symmetric matrix: all, or the two at either end if it is large."""
    if a.shape[0] <= DENSE:
        return np.linalg.eigvalsh(a.toarray())
    return _or_all(
        lambda: linalg.eigsh(a, 4, which="BE", v0=_begin(a.shape[0]), return_eigenvectors=False),
        lambda: np.linalg.eigvalsh(a.toarray()),
    )


def eigenvalues(p: Sparse) -> Spectrum:
    """Eigenvalues of a transition matrix: all, or if it is large 1 and those of largest real part and modulus."""
    if p.shape[0] <= DENSE:
        return np.linalg.eigvals(p.toarray())

    def ends() -> Spectrum:
        found: list[Any] = [[1.0]]
        for which in ("LR", "LM"):
            values = linalg.eigs(quick(p), 3, which=which, v0=_begin(p.shape[0]), return_eigenvectors=False)
            found.append(np.delete(values, np.abs(values - 1).argmin()))
        return np.concatenate(found)

    return _or_all(ends, lambda: np.linalg.eigvals(p.toarray()))


def quick(a: Sparse) -> Matrix:
    """Convert a sparse matrix to an array unless most of it is empty: that is faster."""
    return a if a.nnz < 0.1 * a.shape[0] * a.shape[1] else a.toarray()


def _begin(n: int) -> FloatArray:
    """Starting vector of iterations: always the same, for reproducible results."""
    return np.random.default_rng(0).normal(size=n)


def _or_all(ends: Callable[[], Spectrum], everything: Callable[[], Spectrum]) -> Spectrum:
    """Compute the eigenvalues at the ends by iteration, or all of them if that does not converge."""
    try:
        return ends()
    except linalg.ArpackNoConvergence:
        return everything()
