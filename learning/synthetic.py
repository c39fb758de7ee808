"""Synthetic(alpha, beta): clients whose models and features differ by a known amount (Li et al. 2020)."""

from __future__ import annotations

import numpy as np

from learning.samples import Samples


def synthetic(
    clients: int,
    generator: np.random.Generator,
    alpha: float = 0.5,
    beta: float = 0.5,
    features: int = 60,
    classes: int = 10,
    samples: tuple[int, int] = (50, 1000),
) -> Samples:
    """Samples of a linear classifier per client, drawn afresh for each; beta sets how much features differ.

    Client k: u ~ N(0, alpha²), W, b ~ N(u, 1); B ~ N(0, beta²), v ~ N(B, 1); x ~ N(v, diag(j^-1.2)) and
    label = argmax(xW + b). Sizes follow a log-normal law from samples[0] up, cut at samples[1]. As published, u
    shifts all classes of a client alike and cancels in the argmax: alpha changes the models, not the labels.
    """
    low, high = samples
    sizes = np.minimum(low + generator.lognormal(4.0, 2.0, clients).astype(np.int64), high)
    model_mean = generator.normal(0.0, alpha, clients)
    feature_mean = generator.normal(0.0, beta, clients)
    spread = np.arange(1, features + 1) ** -0.6  # standard deviations: the square roots of j^-1.2
    ends = np.cumsum(sizes)
    all_features = np.empty((ends[-1], features), dtype=np.float32)
    all_labels = np.empty(ends[-1], dtype=np.int64)
    for size, end, u, centre in zip(sizes, ends, model_mean, feature_mean, strict=True):
        weights = generator.normal(u, 1.0, (features, classes))
        bias = generator.normal(u, 1.0, classes)
        middle = generator.normal(centre, 1.0, features)
        x = middle + spread * generator.standard_normal((size, features))
        all_features[end - size : end] = x
        all_labels[end - size : end] = np.argmax(x @ weights + bias, axis=1)
    return Samples(all_features, all_labels, classes, np.repeat(np.arange(clients), sizes))
