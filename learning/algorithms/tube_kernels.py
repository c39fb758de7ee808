"""Compiled loops of RWSADMM, variants slack and relay: before and after the steps of a visit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmule.learning.compiler import compiled
from fedmule.learning.kernels import widths

Array = NDArray[Any]


def arrive(
    clients: Array,
    own: Array,
    kept: Sequence[Array],
    y: Array,
    origin: Array,
    beta: float,
    back: float,
    within: Any,
    eps: Any,
) -> tuple[Array, Array]:
    """Return initial models x [S,d], stored ones or y ([S,d] or [1,d]), at most `within` from y, and the anchors.

    An anchor is y − lam/β, moved by the share `back` of the way y − origin where eps is 0.
    """
    models, duals = kept[:2]
    x, anchors = np.empty((2, len(clients), y.shape[1]), y.dtype)
    bounds, numbers = (widths(within, y[0]), widths(eps, y[0])), (y.dtype.type(1 / beta), y.dtype.type(back))
    for i, client in enumerate(clients.tolist()):
        given = y[i % len(y)]
        start = models[client] if own[i] else given
        _arrive(start, duals[client], given, origin, *numbers, *bounds, x[i], anchors[i])
    return x, anchors


def contribute(
    clients: Array,
    counts: Array,
    x: Array,
    kept: Sequence[Array],
    moved_sq: Array,
    y: Array,
    token: Array,
    beta: float,
    kappa: float,
    eps: Any,
    share: float,
) -> tuple[Array, float]:
    """Store x [S,d], its duals and contributions; return token + share·Σ(c − last) and its distance from the token."""
    number, bounds, moved = y.dtype.type, widths(eps, token), np.zeros_like(token)
    numbers = number(1 / beta), number(kappa)
    for i, client in enumerate(clients.tolist()):
        rows = [part[client] for part in kept]
        moved_sq[client] = _contribute(x[i], *rows, y[i % len(y)], token, *numbers, bounds, counts[i], moved)
    return moved, math.sqrt(_move(moved, token, number(share)))


def settle(
    clients: Array,
    x: Array,
    kept: Sequence[Array],
    moved_sq: Array,
    y: Array,
    token: Array,
    weights: Sequence[float],
    beta: float,
    kappas: Sequence[float],
    eps: Any,
) -> tuple[Array, float]:
    """Store models x [S,d] and their duals; return token + Σ w (x − y) and its distance from the token."""
    number, bounds, moved = y.dtype.type, widths(eps, token), np.zeros_like(token)
    for i, client in enumerate(clients.tolist()):
        rows, numbers = [part[client] for part in kept], (number(1 / beta), number(kappas[i]))
        moved_sq[client] = _settle(x[i], *rows, y[i % len(y)], *numbers, bounds, number(weights[i]), moved)
    return moved, math.sqrt(_move(moved, token, number(1)))


@compiled
def _arrive(
    model: Array,
    lam: Array,
    y: Array,
    origin: Array,
    scale: float,
    back: float,
    within: Array,
    eps: Array,
    x: Array,
    anchor: Array,
) -> None:
    for j in range(len(y)):
        x[j] = min(max(model[j], y[j] - within[j]), y[j] + within[j])
        given = back if eps[j] == 0 else 0 * back
        anchor[j] = y[j] - scale * lam[j] + given * (y[j] - origin[j])


@compiled
def _contribute(
    x: Array,
    model: Array,
    lam: Array,
    c: Array,
    y: Array,
    token: Array,
    scale: float,
    kappa: float,
    eps: Array,
    counts: bool,
    step: Array,
) -> float:
    """Compute rwsadmm.contribution with scale = 1/β; step += c − (its last value if `counts`, else the token).

    Sets the model to x; returns |x − model|².
    """
    total: float = x.dtype.type(0)
    for j in range(len(x)):
        scaled = scale * lam[j]
        q = x[j] - y[j] + scaled
        e = q - min(max(q, -eps[j]), eps[j])
        change = kappa * (e - scaled)
        new = y[j] + e + change
        step[j] += new - (c[j] if counts else token[j])
        lam[j] += change / scale
        c[j] = new
        moved = x[j] - model[j]
        total += moved * moved
        model[j] = x[j]
    return total


@compiled
def _settle(
    x: Array,
    model: Array,
    lam: Array,
    y: Array,
    scale: float,
    kappa: float,
    eps: Array,
    weight: float,
    step: Array,
) -> float:
    """Compute relay.dual_of with scale = 1/β; step += weight · (x − y). Sets the model; returns |x − model|²."""
    total: float = x.dtype.type(0)
    for j in range(len(x)):
        apart = x[j] - y[j]
        q = apart + scale * lam[j]
        lam[j] += kappa * (apart - min(max(q, -eps[j]), eps[j])) / scale
        step[j] += weight * apart
        moved = x[j] - model[j]
        total += moved * moved
        model[j] = x[j]
    return total


def distance(a: Array, b: Array) -> float:
    """Return |a − b| of two models [d]."""
    return math.sqrt(_distance_sq(a, b))


@compiled
def _distance_sq(a: Array, b: Array) -> float:
    total = 0.0
    for j in range(len(a)):
        apart = a[j] - b[j]
        total += apart * apart
    return total


@compiled
def _move(step: Array, token: Array, share: float) -> float:
    """step ← token + share · step; return the squared length of the move."""
    total = 0.0
    for j in range(len(token)):
        move = share * step[j]
        total += move * move
        step[j] = token[j] + move
    return total
