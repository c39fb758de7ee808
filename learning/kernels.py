"""Compiled steps of a visit for dense networks: the same as `descend` with MLP.gradient and Pull, but faster.

A step copies and allocates nothing. Loops run along contiguous memory, several rows at a time, so that each number
loaded is used several times. The order of every sum is fixed: the same numbers in, the same bits out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]

AT_ONCE = 5  # rows summed together


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function on its first call, and cache the result on disk for later runs if possible.

    The compiler may choose the order of a sum, but must preserve inf and nan: they reveal a run that diverges.
    """
    return _compiled(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function inline in each of its callers.

    Compiled separately, it could be optimised in two ways, and which one a caller uses would depend on whether it was
    compiled in this run or loaded from the cache: the bits would differ.
    """
    return _compiled(function, forceinline=True)


def _compiled(function: Callable[..., Any], **more: Any) -> Any:
    keys: Any = {"fastmath": {"reassoc", "contract", "arcp", "nsz"}, "error_model": "numpy", **more}
    try:
        return njit(cache=True, **keys)(function)
    except RuntimeError:  # neither this folder nor the user's cache is writable
        return njit(**keys)(function)


def widths(eps: Any, like: Array) -> Array:
    """Return the half-width of a tube for each coordinate of a model [d]."""
    return _constant(eps, len(like), like.dtype) if isinstance(eps, float) else np.asarray(eps)


@lru_cache(maxsize=8)
def _constant(eps: float, size: int, dtype: Any) -> Array:
    return np.full(size, eps, dtype)


def workspace(widths: tuple[int, ...], batch: int, dtype: Any) -> tuple[Array, Array, Array, Array]:
    """Allocate the memory of `steps`: outputs and errors of all layers, factors, and the numbers 0, 1, 2, and so on."""
    widest = max(widths[1:])
    longest = max(batch, widest)
    shapes = (len(widths) - 1, batch, widest), (len(widths) - 1, batch, widest), (longest + 1, longest + AT_ONCE)
    outputs, errors, factors = (np.empty(shape, dtype) for shape in shapes)
    return outputs, errors, factors, np.arange(longest)


@compiled
def steps(
    x: Array,
    layers: tuple[tuple[Array, Array], ...],
    features: Array,
    labels: Array,
    batches: Array,
    scale: float,
    anchor: Array,
    strength: float,
    eps: Array,
    first: bool,
    prior: Array,
    outputs: Array,
    errors: Array,
    factors: Array,
    every: Array,
) -> float:
    """Train a model x [d] in place and return the mean loss; `layers` are views of x: weights [out,in] and bias.

    `batches` are rows [steps,B] of features and labels; `scale` is −η/B. Unless `strength` is 0, each step pulls the
    model towards the tube of half-widths eps [d] around the anchor [d]: before the step if `first`, else after. The
    prior [c] is added to scores; [0]: nothing is added.
    """
    count, batch = batches.shape
    last = len(layers) - 1
    loss = 0.0
    for step in range(count):
        rows = batches[step]
        a, own = features, rows
        for layer in range(last + 1):
            weights, bias = layers[layer]
            _multiply(a, own, weights, bias, layer < last, outputs[layer])
            a, own = outputs[layer], every
        for b in range(batch):
            for k in range(len(prior)):
                a[b, k] += prior[k]
        loss += _softmax_error(a, labels, rows, len(layers[last][1]), scale, errors[last])
        for layer in range(last, 0, -1):
            _back(errors[layer], layers[layer][0], outputs[layer - 1], every, factors, errors[layer - 1])
        if first and strength > 0:
            pull(x, anchor, strength, eps)
        a, own = features, rows
        for layer in range(last + 1):
            weights, bias = layers[layer]
            _step(weights, bias, errors[layer], a, own, batch, factors)
            a, own = outputs[layer], every
        if strength > 0 and not first:
            pull(x, anchor, strength, eps)
    mean: float = loss / (count * batch)
    return mean


@inlined
def _multiply(a: Array, rows: Array, weights: Array, bias: Array, relu: bool, out: Array) -> None:
    """out[b] = bias + weights · a[rows[b]], no less than 0 with relu; two samples and five outputs at once."""
    lowest = out.dtype.type(0.0 if relu else -np.inf)
    last, end = len(out) - 1, len(weights) - 1
    for o in range(0, len(weights), AT_ONCE):
        o1, o2, o3, o4 = min(o + 1, end), min(o + 2, end), min(o + 3, end), min(o + 4, end)
        for b in range(0, len(out), 2):
            c = min(b + 1, last)
            p, q = rows[b], rows[c]
            s0, s1, s2, s3, s4 = bias[o], bias[o1], bias[o2], bias[o3], bias[o4]
            t0, t1, t2, t3, t4 = s0, s1, s2, s3, s4
            for j in range(weights.shape[1]):
                s0 += a[p, j] * weights[o, j]
                s1 += a[p, j] * weights[o1, j]
                s2 += a[p, j] * weights[o2, j]
                s3 += a[p, j] * weights[o3, j]
                s4 += a[p, j] * weights[o4, j]
                t0 += a[q, j] * weights[o, j]
                t1 += a[q, j] * weights[o1, j]
                t2 += a[q, j] * weights[o2, j]
                t3 += a[q, j] * weights[o3, j]
                t4 += a[q, j] * weights[o4, j]
            out[b, o], out[b, o1], out[b, o2], out[b, o3], out[b, o4] = s0, s1, s2, s3, s4
            out[c, o], out[c, o1], out[c, o2], out[c, o3], out[c, o4] = t0, t1, t2, t3, t4
    for b in range(len(out)):
        for o in range(len(weights)):
            out[b, o] = lowest if out[b, o] < lowest else out[b, o]


@inlined
def _softmax_error(scores: Array, labels: Array, rows: Array, classes: int, scale: float, error: Array) -> float:
    """error = scale · (p − 1 at the label) of scores [B,c]; returns the sum of the losses."""
    loss = 0.0
    for b in range(len(rows)):
        label, highest, total = labels[rows[b]], scores[b, 0], error.dtype.type(0)
        for k in range(classes):
            highest = max(highest, scores[b, k])
        for k in range(classes):
            error[b, k] = math.exp(scores[b, k] - highest)
            total += error[b, k]
        loss += math.log(total) + highest - scores[b, label]
        for k in range(classes):
            error[b, k] *= scale / total
        error[b, label] -= scale
    return loss


@inlined
def _back(error: Array, weights: Array, a: Array, every: Array, factors: Array, before: Array) -> None:
    """before[b] = Σ_o error[b,o] weights[o], where a layer's inputs a are positive."""
    batch, (outs, inputs) = len(before), weights.shape
    for b in range(batch):
        for k in range(outs):
            factors[b, k] = error[b, k]
        for k in range(inputs):
            before[b, k] = 0
    _add(before, batch, weights, every, outs, inputs, factors)
    for b in range(batch):
        for k in range(inputs):
            before[b, k] = before[b, k] if a[b, k] > 0 else 0


@inlined
def _step(weights: Array, bias: Array, error: Array, a: Array, rows: Array, batch: int, factors: Array) -> None:
    """weights[o] += Σ_b error[b,o] a[rows[b]] and bias[o] += Σ_b error[b,o]."""
    for o in range(len(weights)):
        for b in range(batch):
            factors[o, b] = error[b, o]
            bias[o] += error[b, o]
    _add(weights, len(weights), a, rows, batch, weights.shape[1], factors)


@inlined
def _add(to: Array, sums: int, a: Array, rows: Array, terms: int, width: int, e: Array) -> None:
    """to[i] += Σ_k e[i,k] a[rows[k]] for i < sums, k < terms; two sums of five terms at once, the missing ones 0."""
    last, end = sums - 1, terms - 1
    for i in range(sums):
        for k in range(terms, terms + AT_ONCE):
            e[i, k] = 0
    for k in range(terms + AT_ONCE):
        e[sums, k] = 0
    for i in range(0, sums, 2):
        h = i + 1 if i < last else max(i - 1, 0)
        for k in range(0, terms, AT_ONCE):
            r0, r1, r2 = rows[k], rows[min(k + 1, end)], rows[min(k + 2, end)]
            r3, r4 = rows[min(k + 3, end)], rows[min(k + 4, end)]
            e0, e1, e2, e3, e4 = e[i, k], e[i, k + 1], e[i, k + 2], e[i, k + 3], e[i, k + 4]
            f0, f1, f2, f3, f4 = e[i + 1, k], e[i + 1, k + 1], e[i + 1, k + 2], e[i + 1, k + 3], e[i + 1, k + 4]
            for j in range(width):
                to[i, j] += e0 * a[r0, j] + e1 * a[r1, j] + e2 * a[r2, j] + e3 * a[r3, j] + e4 * a[r4, j]
                to[h, j] += f0 * a[r0, j] + f1 * a[r1, j] + f2 * a[r2, j] + f3 * a[r3, j] + f4 * a[r4, j]


@inlined
def pull(x: Array, anchor: Array, strength: float, eps: Array) -> None:
    """x ← x − strength·(q − clip(q, ±eps)) with q = x − anchor."""
    for j in range(len(x)):
        q = x[j] - anchor[j]
        x[j] -= strength * (q - min(max(q, -eps[j]), eps[j]))


# --- RWSADMM, variants slack and relay: before and after the steps ---------------------------------------------------


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
    kappa: float,
    eps: Any,
) -> tuple[Array, float]:
    """Store models x [S,d] and their duals; return token + Σ w (x − y) and its distance from the token."""
    number, bounds, moved = y.dtype.type, widths(eps, token), np.zeros_like(token)
    numbers = number(1 / beta), number(kappa)
    for i, client in enumerate(clients.tolist()):
        rows = [part[client] for part in kept]
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
