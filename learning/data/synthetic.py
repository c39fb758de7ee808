"""Synthetic(alpha, beta): clients whose models and features differ by a known amount (Li et al. 2020)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedmule.learning.data.samples import Samples


def synthetic(
    clients: int,
    generator: np.random.Generator,
    site: NDArray[np.int64] | None,
    alpha: float,
    beta: float,
    features: int,
    classes: int,
    samples: tuple[int, int],
    size_factor: int,
    feature_spread: float,
    alike: float,
    alike_at_sites: float,
) -> Samples:
    """Draw samples labelled by one linear classifier per client; beta sets how much features differ.

    Client k: u ~ N(0, alpha²), W, b ~ N(u, 1); B ~ N(0, beta²), v ~ N(B, feature_spread²); x ~ N(v, diag(j^-1.2)) and
    label = argmax(xW + b). Sizes are samples[0] + size_factor · ⌊exp N(4, 2²)⌋, capped at samples[1]. As published, u
    shifts all classes of a client equally and cancels in the argmax: alpha changes the models, not the labels.

    With `alike` and `alike_at_sites`, W and b are u + √alike·(one draw for all) + √alike_at_sites·(one draw for each
    site, [n] 0 … m−1) + √(1 − both)·(the client's own draw): the models of two clients have correlation `alike`,
    those of one site alike + alike_at_sites.
    """
    low, high = samples
    sizes = np.minimum(low + size_factor * generator.lognormal(4.0, 2.0, clients).astype(np.int64), high)
    model_mean = generator.normal(0.0, alpha, clients)
    feature_mean = generator.normal(0.0, beta, clients)
    spread = np.arange(1, features + 1) ** -0.6  # standard deviations: the square roots of j^-1.2
    ends = np.cumsum(sizes)
    at = np.zeros(clients, dtype=np.int64) if site is None else site
    shared = generator.spawn(1)[0]  # separate, so a client's own draws do not depend on how much is shared
    for_all = np.sqrt(alike) * shared.standard_normal((features + 1, classes))
    for_sites = np.sqrt(alike_at_sites) * shared.standard_normal((at.max() + 1, features + 1, classes))
    own = np.sqrt(max(0.0, 1 - alike - alike_at_sites))
    all_features = np.empty((ends[-1], features), dtype=np.float32)
    all_labels = np.empty(ends[-1], dtype=np.int64)
    for size, end, u, centre, where in zip(sizes, ends, model_mean, feature_mean, at, strict=True):
        common = for_all + for_sites[where]
        weights = generator.normal(u, own, (features, classes)) + common[:-1]
        bias = generator.normal(u, own, classes) + common[-1]
        middle = generator.normal(centre, feature_spread, features)
        x = middle + spread * generator.standard_normal((size, features))
        all_features[end - size : end] = x
        all_labels[end - size : end] = np.argmax(x @ weights + bias, axis=1)
    return Samples(all_features, all_labels, classes, np.repeat(np.arange(clients), sizes))
