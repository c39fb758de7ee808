"""How much of the mean dual is given back: losses on samples learnt from and held out, and what follows from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fedmule.learning.algorithms.base import Contact
from fedmule.learning.algorithms.overfitting import EVERY, HELD_OUT, MEMORY, MOST, UNKNOWN, share_back

HELD = {"centre": "held_out", "local_steps": 3}


def test_the_share_given_back() -> None:
    assert share_back(0.5, 0.5) == 1.0
    assert share_back(0.6, 0.5) == 1.0  # by chance
    assert share_back(0.1, 0.4) == pytest.approx(0.25)
    assert share_back(0.0, 0.0) == UNKNOWN


def plain_losses(small: Any, client: int, y: np.ndarray) -> list[float]:
    """Mean losses of a linear model in numpy: samples learnt from come first, those held out last."""
    data, features = small.data, small.data.features.shape[1]
    count = int(data.train_count[client])
    held = int(HELD_OUT * count)
    x = data.features.numpy()[int(data.first[client]) :][:count]
    labels = data.labels.numpy()[int(data.first[client]) :][:count]
    scores = x @ y[: -data.classes].reshape(data.classes, features).T + y[-data.classes :]
    loss = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(count), labels]
    return [float(loss[max(0, count - held - MOST) : count - held].mean()), float(loss[count - held :][:MOST].mean())]


def test_losses_against_a_plain_computation(problem: Any) -> None:
    small = problem(clients=9, samples=(6, 900))
    algorithm = small.build("relay", **HELD)
    y = torch.from_numpy(np.random.default_rng(0).normal(size=(3, small.model.parameters)))
    found = algorithm.overfitting.losses(np.array([0, 3, 8]), y)
    np.testing.assert_allclose(found[0], plain_losses(small, 0, y[0].numpy()))
    assert found[1].isnan().all()  # holds nothing out
    np.testing.assert_allclose(found[2], plain_losses(small, 8, y[2].numpy()))
    one_for_all = algorithm.overfitting.losses(np.array([0, 3, 8]), y[0])
    np.testing.assert_allclose(one_for_all[2], plain_losses(small, 8, y[0].numpy()))


def test_older_reports_count_less_whatever_the_order(problem: Any) -> None:
    small = problem(clients=9)
    one, other = (small.build("relay", **HELD) for _ in range(2))
    assert one.centre == UNKNOWN
    learnt = held = 0.0
    for clients in ([0, 1], [4, 8], [2, 3], [0, 4, 5]):
        reports = [plain_losses(small, c, one.token.numpy()) for c in clients if c % EVERY == 0]
        learnt = learnt * MEMORY ** len(reports) + sum(r[0] for r in reports)
        held = held * MEMORY ** len(reports) + sum(r[1] for r in reports)
        one.update(Contact(np.array(clients), len(clients), 0.3))
        other.update(Contact(np.array(clients[::-1]), len(clients), 0.3))
        assert one.centre == pytest.approx(share_back(learnt, held) if held else UNKNOWN)
        assert other.centre == pytest.approx(one.centre)


def test_what_is_held_out_is_not_learnt_from_until_the_opening(problem: Any) -> None:
    small = problem(clients=5)
    labels, data = small.data.labels.clone(), small.data
    for client in range(0, 5, EVERY):
        end = int(data.first[client] + data.train_count[client])
        held = int(HELD_OUT * data.train_count[client])
        labels[end - held : end] = (labels[end - held : end] + 1) % 3
    changed = replace(small, data=replace(data, labels=labels))
    one, other = (made.build("relay", kappa=0.0, **HELD) for made in (small, changed))
    for progress in (0.1, 0.3, 0.6):
        for made in (one, other):
            made.update(Contact(np.arange(5), 5, progress))
        assert torch.equal(one.token, other.token)
    for made in (one, other):
        made.update(Contact(np.arange(5), 5, 0.9))
    assert not torch.equal(one.models[0], other.models[0])
    assert torch.equal(one.models[1], other.models[1])


def test_a_token_that_learns_samples_by_heart_is_slowed_down(shared: Any) -> None:
    """Of four noisy labels per client it learns the noise, of 150 what all share."""
    found = {}
    for samples in (10, 400):
        made = shared(clients=8, samples=samples)
        labels, generator = made.data.labels.clone(), np.random.default_rng(3)
        noisy = torch.from_numpy(generator.random(len(labels)) < 0.4)
        labels[noisy] = torch.from_numpy(generator.integers(0, 4, int(noisy.sum())))
        algorithm = replace(made, data=replace(made.data, labels=labels)).build("relay", centre="held_out")
        for _ in range(40):
            algorithm.update(Contact(np.arange(8), 8, 0.3))
        found[samples] = algorithm.centre
    assert found[10] + 0.15 < 0.9 < found[400]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_loss_that_is_not_finite_is_not_noted(problem: Any, bad: float) -> None:
    algorithm = problem(clients=5).build("relay", **HELD)
    algorithm.update(Contact(np.arange(5), 5, 0.1))
    before = algorithm.centre
    algorithm.token = torch.full_like(algorithm.token, bad)
    algorithm.update(Contact(np.arange(5), 5, 0.1))
    assert algorithm.centre == before
