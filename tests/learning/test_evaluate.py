"""Accuracies kept up to date at a cost proportional to the clients that changed."""

import numpy as np
import pytest
import torch

from fedmule.learning import evaluate
from fedmule.learning.evaluate import Evaluator

KINDS = ["slack", "relay", "derived", "fedavg", "walkman", "local"]


class Watched:
    """A model that records the samples it scores."""

    def __init__(self, model):
        self.model, self.scored = model, []

    def __getattr__(self, name):
        return getattr(self.model, name)

    def scores(self, x, features):
        self.scored.append(features)
        return self.model.scores(x, features)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("double", [True, False])
def test_accuracies_equal_an_evaluation_of_all_clients(problem, plain, contacts, kind, double):
    small = problem(double=double)
    algorithm = small.build(kind, local_steps=3)
    evaluator = Evaluator(algorithm)
    for step, contact in enumerate(contacts(7, 60)):
        algorithm.update(contact)
        evaluator.changed(contact.clients)
        evaluator.refresh()
        if step % 10 == 9:
            models = algorithm.models.double().numpy()
            each = np.array([plain.test_accuracy(models[i], small.data, i) for i in range(7)])
            np.testing.assert_allclose(evaluator.test.accuracy, each)
            assert evaluator.test.mean == pytest.approx(each.mean())
            weighted = np.average(each, weights=small.data.test_count)
            assert evaluator.test.weighted == pytest.approx(weighted)
    assert evaluator.test.mean != pytest.approx(evaluator.test.weighted, rel=1e-6)


def test_all_clients_are_evaluated_at_the_start(problem, plain):
    small = problem()
    evaluator = Evaluator(small.build("slack"))
    each = [plain.test_accuracy(small.start.numpy(), small.data, i) for i in range(7)]
    np.testing.assert_allclose(evaluator.test.accuracy, each)
    assert evaluator.test.mean == pytest.approx(np.mean(each))
    assert evaluator.test.weighted == pytest.approx(np.average(each, weights=small.data.test_count))


def test_printed_starts_with_the_accuracy_of_the_zero_model(problem, plain):
    small = problem()
    evaluator = Evaluator(small.build("printed"))
    each = [plain.test_accuracy(np.zeros(18), small.data, i) for i in range(7)]
    np.testing.assert_allclose(evaluator.test.accuracy, each)
    assert evaluator.overview(0.0).lagrangian == pytest.approx(np.log(3), rel=1e-4)


@pytest.mark.parametrize("kind", [*KINDS, "printed"])
@pytest.mark.parametrize("at_once", [1 << 18, 5, 64])
def test_token_accuracy(problem, plain, contacts, monkeypatch, kind, at_once):
    monkeypatch.setattr(evaluate, "SAMPLES_AT_ONCE", at_once)
    small = problem()
    algorithm = small.build(kind, local_steps=3)
    evaluator = Evaluator(algorithm)
    for contact in contacts(7, 10):
        algorithm.update(contact)
        evaluator.changed(contact.clients)
        evaluator.refresh()
        each = [plain.test_accuracy(algorithm.token.numpy(), small.data, i) for i in range(7)]
        assert evaluator.overview(contact.progress).token_test_acc.mean() == pytest.approx(np.mean(each))


def test_without_a_constraint_there_is_no_lagrangian(problem, contact):
    algorithm = problem().build("fedavg")
    evaluator = Evaluator(algorithm)
    algorithm.update(contact(1, 2))
    evaluator.changed(np.array([1, 2]))
    evaluator.refresh()
    overview = evaluator.overview(0.3)
    assert (overview.constraint, overview.lagrangian, overview.lyapunov) == (None, None, None)


def test_a_model_of_unknown_smoothness_has_no_lyapunov_value(problem):
    algorithm = problem().build("slack")
    algorithm.model = Watched(algorithm.model)
    algorithm.model.smoothness = lambda data: None
    overview = Evaluator(algorithm).overview(0.0)
    assert overview.lagrangian is not None
    assert overview.lyapunov is None


def test_a_refresh_evaluates_only_the_changed_clients(problem, contact):
    small = problem()
    algorithm = small.build("slack", open_at=2.0)
    algorithm.model = watched = Watched(algorithm.model)
    evaluator = Evaluator(algorithm)
    algorithm.update(contact(2, 5))
    watched.scored.clear()
    evaluator.changed(np.array([2, 5]))
    evaluator.refresh()
    assert len(watched.scored) == 2
    for client, features in zip((2, 5), watched.scored, strict=True):
        rows = slice(small.data.test_first[client], small.data.first[client + 1])
        assert torch.equal(features, small.data.features[rows])


def test_an_overview_evaluates_training_samples_of_changed_clients_only(problem, contact):
    small = problem()
    algorithm = small.build("slack", open_at=2.0)
    algorithm.model = watched = Watched(algorithm.model)
    evaluator = Evaluator(algorithm)
    for _ in range(2):
        algorithm.update(contact(2, 5))
        evaluator.changed(np.array([2, 5]))
        evaluator.refresh()
    watched.scored.clear()
    evaluator.overview(0.1)
    sizes = sorted(len(features) for features in watched.scored)
    tests = int(small.data.test_count.sum())
    assert sizes == sorted([tests, *small.data.train_count[[2, 5]].tolist()])
    watched.scored.clear()
    evaluator.overview(0.1)
    assert [len(features) for features in watched.scored] == [tests]


def test_training_losses_stay_correct_between_overviews(problem, plain, contacts):
    small = problem()
    algorithm = small.build("slack", open_at=0.0)  # L_β is just the mean loss
    evaluator = Evaluator(algorithm)
    for step, contact in enumerate(contacts(7, 30)):
        algorithm.update(contact)
        evaluator.changed(contact.clients)
        evaluator.refresh()
        if step % 7 == 0:
            losses = [plain.train_loss(algorithm.models[i].numpy(), small.data, i) for i in range(7)]
            assert evaluator.overview(contact.progress).lagrangian == pytest.approx(np.mean(losses), rel=1e-9)
