"""Compiled loops for dense networks: batches, the same steps as `descend` with MLP.gradient and Pull, and evaluation.

A step copies and allocates nothing. Loops run along contiguous memory, several rows at a time, so that each number
loaded is used several times. The order of every sum is fixed: the same numbers in, the same bits out.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmule.learning.compiler import compiled, inlined

Array = NDArray[Any]

AT_ONCE = 5  # rows summed together


def widths(eps: Any, like: Array) -> Array:
    """Return the half-width of a tube for each coordinate of a model [d]."""
    return _constant(eps, len(like), like.dtype) if isinstance(eps, float) else np.asarray(eps)


@lru_cache(maxsize=8)
def _constant(eps: float, size: int, dtype: Any) -> Array:
    return np.full(size, eps, dtype)


def workspace(widths: tuple[int, ...], batch: int, dtype: Any) -> tuple[Array, Array, Array, Array]:
    """Allocate the memory of `train`: outputs and errors of all layers, factors, and the numbers 0, 1, 2, and so on."""
    widest = max(widths[1:])
    longest = max(batch, widest)
    shapes = (len(widths) - 1, batch, widest), (len(widths) - 1, batch, widest), (longest + 1, longest + AT_ONCE)
    outputs, errors, factors = (np.empty(shape, dtype) for shape in shapes)
    return outputs, errors, factors, np.arange(longest)


@compiled
def rows_of(numbers: Array, pool: Array, first: Array, skipped: int, size: int) -> Array:
    """Return batches [steps,S,B] of rows from numbers [S,k] in [0,1): first + ⌊number · pool⌋, without some batches."""
    clients, count = len(numbers), numbers.shape[1] // size - skipped
    found = np.empty((count, clients, size), np.int64)
    for i in range(clients):
        for step in range(count):
            for b in range(size):
                number = numbers[i, (skipped + step) * size + b]
                found[step, i, b] = first[i] + np.int64(number * pool[i])
    return found


@compiled
def train(
    starts: Array,
    x: Array,
    layers: tuple[tuple[Array, Array], ...],
    features: Array,
    labels: Array,
    batches: Array,
    scale: float,
    anchors: Array,
    strength: float,
    eps: Array,
    first: bool,
    priors: Array,
    outputs: Array,
    errors: Array,
    factors: Array,
    every: Array,
) -> tuple[Array, float]:
    """Return models after SGD from starts [S,d], and the mean loss.

    The model x [d] is room to work in; `layers` are views of it: weights [out,in] and bias.
    `batches` are rows [steps,S,B] of features and labels; `scale` is −η/B. Unless `strength` is 0, each step pulls a
    model towards the tube of half-widths eps [d] around its anchor, of [S,d] or of [1,d] for all: before the step if
    `first`, else after. Priors [S,c] are added to scores; [S,0]: nothing is added.
    """
    trained, loss, last = np.empty_like(starts), 0.0, len(layers) - 1
    count, clients, batch = batches.shape
    rows = np.empty(batch, batches.dtype)
    for i in range(clients):
        anchor, prior = anchors[min(i, len(anchors) - 1)], priors[i]
        for j in range(len(x)):  # slices would have to be checked, which takes half a second to compile
            x[j] = starts[i, j]
        for step in range(count):
            for b in range(batch):
                rows[b] = batches[step, i, b]
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
        for j in range(len(x)):
            trained[i, j] = x[j]
    return trained, loss / (clients * count * batch)


@compiled
def scores(layers: tuple[tuple[Array, Array], ...], features: Array, every: Array) -> Array:
    """Return class scores [N,c] of a model, given as its layers, on samples [N,f]; `every` is 0, 1, 2, and so on."""
    last = len(layers) - 1
    a = features
    for layer in range(last + 1):
        weights, bias = layers[layer]
        out = np.empty((len(features), len(bias)), features.dtype)
        _multiply(a, every, weights, bias, layer < last, out)
        a = out
    return a


@compiled
def judge(scores: Array, labels: Array) -> tuple[Array, Array]:
    """Return which scores [N,c] are highest for another class than the label, and the cross-entropy of each [N]."""
    count, classes = scores.shape
    wrong, losses = np.empty(count, np.bool_), np.empty(count)
    for b in range(count):
        best, total = 0, 0.0
        for k in range(1, classes):
            best = k if scores[b, k] > scores[b, best] else best
        highest = np.float64(scores[b, best])
        for k in range(classes):
            total += math.exp(scores[b, k] - highest)
        losses[b] = math.log(total) + highest - scores[b, labels[b]]
        wrong[b] = best != labels[b]
    return wrong, losses


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
