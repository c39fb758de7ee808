"""What clients make of the token by what they know of their own labels, and the trials that decide whether they do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from making import make
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from fedmule.learning.algorithms.base import Contact
from fedmule.learning.algorithms.overfitting import EVERY
from fedmule.learning.algorithms.own_labels import (
    CLEAR,
    FRESH,
    GROWN,
    LEAST_SKEW,
    MOST_SKEW,
    beyond_chance,
    concentration,
    log_ratio,
)
from fedmule.learning.data.client_data import ClientData
from fedmule.learning.models.logistic import MLR
from fedmule.learning.models.protocol import ends_in_bias
from fedmule.learning.tokens import Carried
from fedmule.simulator.streams import Streams

USED, NOT_USED = np.array([20.0, 20.0, 5.0, 2.0]), np.array([-3.0, 9.0, 5.0, 2.0])


def counts_of(small: Any, client: int, held: int = 0) -> np.ndarray:
    data = small.data
    first, count = int(data.first[client]), int(data.train_count[client])
    return np.bincount(data.labels[first : first + count - held].numpy(), minlength=data.classes)


def sums_of(small: Any, clients: Any) -> np.ndarray:
    """The sums of labels that these clients report, by counting pairs."""
    total = np.zeros(small.data.classes + 2)
    for client in clients:
        n = counts_of(small, client)
        labels = np.repeat(np.arange(len(n)), n)
        same = sum(int(a == b) for i, a in enumerate(labels) for j, b in enumerate(labels) if i != j)
        total += [*n, same, len(labels) * (len(labels) - 1)]
    return total


def most_likely(counts: np.ndarray) -> float:
    """α of the Dirichlet-multinomial distribution by maximum likelihood, given the mean."""
    mean, n = counts.sum(axis=0) / counts.sum(), counts.sum(axis=1)

    def loss(log_alpha: float) -> float:
        a = np.exp(log_alpha)
        each = gammaln(a) - gammaln(n + a) + (gammaln(counts + a * mean) - gammaln(a * mean)).sum(axis=1)
        return -float(each.sum())

    return float(np.exp(minimize_scalar(loss, bounds=(-4, 8), method="bounded").x))


@pytest.mark.parametrize("alpha", [0.3, 3.0, 30.0])
def test_how_far_clients_differ_is_found_from_their_counts(alpha: float) -> None:
    generator = np.random.default_rng(0)
    mean = np.array([0.1, 0.2, 0.3, 0.4])
    counts = np.array(
        [generator.multinomial(generator.integers(5, 60), p) for p in generator.dirichlet(alpha * mean, 4000)]
    )
    pairs = (counts * (counts - 1)).sum() / (counts.sum(axis=1) * (counts.sum(axis=1) - 1)).sum()
    found = concentration(pairs, float(((counts.sum(axis=0) / counts.sum()) ** 2).sum()))
    assert found == pytest.approx(alpha, rel=0.15)
    assert found == pytest.approx(most_likely(counts), rel=0.15)


def test_limits_of_how_far_clients_differ() -> None:
    assert concentration(0.2, 0.25) == LEAST_SKEW  # labels are as mixed at each client as in all
    assert concentration(1.0, 0.5) == MOST_SKEW  # a label each


def test_scores_with_own_labels_are_those_of_the_clients_own_distribution() -> None:
    """Bayes: log p(x|y) + log m(y) + log(p(y)/m(y)) gives the posterior under p."""
    generator = np.random.default_rng(1)
    likelihood, mean = generator.random((6, 3)), np.array([0.5, 0.3, 0.2])
    counts = np.array([400_000.0, 0.0, 600_000.0])
    scores = np.log(likelihood * mean) + log_ratio(counts, mean, 1.0)
    posterior = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    own = likelihood * (counts / counts.sum())
    np.testing.assert_allclose(posterior, own / own.sum(axis=1, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(log_ratio(np.zeros(3), mean, 2.0), 0.0, atol=1e-12)  # nothing known: as all
    assert np.isfinite(log_ratio(np.array([5.0, 0.0, 0.0]), mean, MOST_SKEW)).all()  # labels it has never seen


def test_few_samples_are_trusted_less() -> None:
    mean = np.full(2, 0.5)
    few, many = (log_ratio(n * np.array([0.9, 0.1]), mean, 10.0) for n in (10, 1000))
    assert 0 < few[0] < many[0]
    assert many[1] < few[1] < 0


def test_the_rule() -> None:
    """Errors and loss together beyond chance, and neither of them worse."""
    assert beyond_chance(6.0, 9.0) == 2.0
    assert beyond_chance(0.0, 0.0) == 0.0


@pytest.mark.parametrize(
    ("sums", "used"),
    [
        ([0, 0, 0, 0], False),  # nobody has tried
        (USED, True),
        (NOT_USED, False),  # more errors
        ([20, 20, -0.1, 2], False),  # a higher loss
        ([1, 8, 1, 1], False),  # not clear
        ([CLEAR * 3, 8, 0, 1], True),
    ],
)
def test_trials_decide(problem: Any, sums: Any, used: bool) -> None:
    small = problem()
    found = {
        rule: small.build("relay", own_labels=rule).own_labels.used(np.array(sums, dtype=float))
        for rule in ("held_out", True, False)
    }
    assert found == {"held_out": used, True: True, False: False}


def test_with_a_prior_they_are_not_added(problem: Any) -> None:
    small = problem()
    with_prior = replace(small, data=small.data.with_prior(0.5))
    for rule in (True, "held_out"):
        assert not with_prior.build("relay", own_labels=rule).own_labels.used(USED)


def test_a_model_whose_last_parameters_are_no_bias_is_left_alone(problem: Any) -> None:
    small = problem()
    assert ends_in_bias(small.model, small.data)

    class Twisted(type(small.model)):  # type: ignore[misc]
        def scores(self, x: Any, features: Any) -> Any:
            return super().scores(x, features) * 2

    model = Twisted(5, 3)
    assert not ends_in_bias(model, small.data)
    assert not replace(small, model=model).build("relay").own_labels.tries


def test_counts_are_reported_once_and_again_after_the_data_changed(problem: Any) -> None:
    small = problem(samples=(6, 40))
    labels = small.data.labels.clone()
    small = replace(small, data=replace(small.data, labels=labels))
    algorithm = small.build("relay")
    for clients in ([0, 1], [1, 4], [0]):
        algorithm.update(Contact(np.array(clients), len(clients), 0.0))
    np.testing.assert_allclose(algorithm.label_sums, sums_of(small, [0, 1, 4]))
    labels[:] = (labels + 1) % 3
    algorithm.forget(np.array([0, 1, 4]))
    algorithm.update(Contact(np.array([1, 4]), 2, 0.0))
    algorithm.update(Contact(np.array([0]), 1, 0.0))
    np.testing.assert_allclose(algorithm.label_sums, sums_of(small, [0, 1, 4]))


def plain_trial(small: Any, client: int, held: int, token: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Σe, Σe², Σl and Σl² of a trial, in numpy."""
    data, classes = small.data, small.data.classes
    end = int(data.first[client] + data.train_count[client])
    x, labels = data.features.numpy()[end - held : end], data.labels.numpy()[end - held : end]
    scores = x @ token[:-classes].reshape(classes, -1).T + token[-classes:]
    mean = (sums[:-2] + 0.5) / (sums[:-2].sum() + 0.5 * classes)
    alpha = concentration(sums[-2] / sums[-1], float(mean @ mean))
    shift = log_ratio(counts_of(small, client, held).astype(float), mean, alpha)
    wrong, loss = {}, {}
    for part in (0.5, 0.75, 1.0):
        moved = scores + part * shift
        wrong[part] = (moved.argmax(axis=1) != labels).astype(float)
        loss[part] = np.log(np.exp(moved).sum(axis=1)) - moved[np.arange(held), labels]
    e, less = wrong[0.5] - wrong[1.0], loss[0.75] - loss[1.0]
    return np.array([e.sum(), (e**2).sum(), less.sum(), (less**2).sum()])


def test_trials_against_a_plain_computation(problem: Any) -> None:
    small = problem(clients=9, samples=(30, 90))
    own, sums = small.build("relay").own_labels, sums_of(small, range(9))
    generator, total = np.random.default_rng(2), np.zeros(4)
    added: dict[int, np.ndarray] = {}
    for client, held in ((0, 5), (3, 7), (0, 5), (8, 4), (3, 7)):
        token = torch.from_numpy(generator.normal(size=small.model.parameters))
        total = own.compare(client, held, token, 10.0, sums, total)
        found = plain_trial(small, client, held, token.numpy(), sums)
        added[client] = found if client not in added else (1 - FRESH) * added[client] + FRESH * found
        np.testing.assert_allclose(total, sum(added.values()), atol=1e-9)
        assert len(own.wrong[client]) == held


def test_a_token_that_is_not_finite_counts_for_nothing(problem: Any) -> None:
    small = problem(clients=9)
    own, sums = small.build("relay").own_labels, sums_of(small, range(9))
    token = torch.full((small.model.parameters,), torch.nan, dtype=torch.float64)
    assert np.isfinite(own.compare(0, 2, token, 1.0, sums, np.zeros(4))).all()


def test_clients_try_again_when_the_token_has_grown(problem: Any) -> None:
    small = problem(clients=9)
    own, sums = small.build("relay").own_labels, sums_of(small, range(9))
    assert own.due(0, 10.0)
    own.compare(0, 2, small.start, 10.0, sums, np.zeros(4))
    assert not own.due(0, 10.0 * GROWN - 1)
    assert own.due(0, 10.0 * GROWN)
    own.forget(np.array([0]))
    assert own.due(0, 10.0)


def test_only_those_who_hold_samples_out_try(problem: Any) -> None:
    small = problem(clients=9, samples=(30, 90))
    algorithm = small.build("relay", centre="held_out")
    algorithm.update(Contact(np.arange(9), 9, 0.05))
    assert not algorithm.own_labels.wrong  # too early
    algorithm.update(Contact(np.arange(9), 9, 0.3))
    assert sorted(algorithm.own_labels.wrong) == list(range(0, 9, EVERY))
    assert algorithm.wrong_with_own_labels(0).dtype == np.bool_
    assert algorithm.wrong_with_own_labels(1) is None


@pytest.mark.parametrize("step_size", [0.0, None])
def test_clients_add_their_labels_once_when_they_take_the_token(problem: Any, step_size: float | None) -> None:
    small = problem()
    one, other = (
        small.build("relay", own_labels=rule, open_at=0.5, fine_tune_step_size=step_size) for rule in (True, False)
    )
    for algorithm in (one, other):
        algorithm.update(Contact(np.arange(7), 7, 0.2))
        algorithm.update(Contact(np.array([1, 4]), 2, 0.6))
    assert one.added.tolist() == [client in (1, 4) for client in range(7)]
    assert not other.added.any()
    bias = slice(-small.data.classes, None)
    for client in (1, 4):
        shift = one.own_labels.shift(client, one.label_sums)
        if step_size == 0:
            moved = (one.models[client] - other.models[client]).numpy()
            np.testing.assert_allclose(moved[bias], shift, atol=1e-12)
            assert not moved[:-3].any()
        else:
            assert not torch.equal(one.models[client], other.models[client])
    kept = one.models[1].clone()
    one.update(Contact(np.array([1]), 1, 0.7))
    if step_size == 0:
        assert torch.equal(one.models[1], kept)  # not a second time
    assert torch.equal(one.token, other.token)  # the token is everyone's


def test_clients_train_on_with_gentler_steps(problem: Any) -> None:
    small = problem()
    for steps, expected in ((4, 0.5), (8, 0.5), (10, 0.4), (20, 0.2)):
        assert small.build("relay", step_size=0.5, local_steps=steps).alone_step_size == pytest.approx(expected)
    assert small.build("relay", step_size=0.5, fine_tune_step_size=0.2).alone_step_size == 0.2
    assert small.build("slack", step_size=0.5).alone_step_size is None


def test_vehicles_that_meet_know_what_both_were_told(problem: Any) -> None:
    small = problem(samples=(6, 40))
    algorithm = small.build("relay")
    carried = Carried(algorithm, 2)
    carried.update(0, Contact(np.array([0, 1]), 2, 0.0))
    carried.update(1, Contact(np.array([4]), 1, 0.0))
    np.testing.assert_allclose(carried.of(0)["label_sums"], sums_of(small, [0, 1]))
    np.testing.assert_allclose(carried.of(1)["label_sums"], sums_of(small, [4]))
    carried.meet(0, 1)
    for vehicle in (0, 1):
        np.testing.assert_allclose(carried.of(vehicle)["label_sums"], sums_of(small, [0, 1, 4]) / 2)


def test_a_vehicle_that_is_told_only_what_has_changed_adds_finite_numbers(problem: Any) -> None:
    small = problem(samples=(6, 40))
    labels = small.data.labels.clone()
    small = replace(small, data=replace(small.data, labels=labels))
    algorithm = small.build("relay")
    carried = Carried(algorithm, 2)
    carried.update(0, Contact(np.arange(7), 7, 0.0))
    labels[:] = (labels + 1) % 3
    algorithm.forget(np.arange(7))
    carried.update(1, Contact(np.arange(7), 7, 0.0))
    sums = np.asarray(carried.of(1)["label_sums"])
    assert sums.min() < 0  # it never heard of the labels before
    for told in (sums, np.array([-1.0, 3000.0, 2000.0, 20.0, 30.0])):  # of three labels, and pairs alike of all pairs
        assert all(np.isfinite(algorithm.own_labels.shift(client, told)).all() for client in range(7))


def with_skewed_labels(shift: float) -> Any:
    """24 clients with three classes in unequal numbers; `shift`: samples of a client are moved by about so much."""
    generator = np.random.default_rng(5)
    each, clients, centres = 200, 24, np.eye(3, 4)
    labels = np.concatenate([generator.choice(3, each, p=generator.dirichlet([0.4] * 3)) for _ in range(clients)])
    features = centres[labels] + 0.7 * generator.normal(size=(clients * each, 4))
    features += shift * np.repeat(
        centres[[np.bincount(part).argmax() for part in np.split(labels, clients)]], each, axis=0
    )
    first, count = each * np.arange(clients + 1), np.full(clients, 150)
    data = ClientData(torch.from_numpy(features), torch.from_numpy(labels), 3, first, count)
    model, keys = MLR(4, 3), {"centre": "held_out", "local_steps": 20, "step_size": 0.3}
    start = model.start(np.random.default_rng(0)).double()
    return make("relay", data, model, start, Streams(0).draw("batches"), **keys)


@pytest.mark.parametrize(("shift", "added"), [(0.0, True), (1.5, False)])
def test_trials_find_whether_clients_differ_in_more_than_their_labels(shift: float, added: bool) -> None:
    """Where a client's most frequent class also moves its samples, the token knows it from them already."""
    algorithm = with_skewed_labels(shift)
    for k in range(40):
        algorithm.update(Contact(np.array([k % 24, (k + 5) % 24]), 2, 0.1 + 0.01 * k))
    assert algorithm.adds_labels == added
