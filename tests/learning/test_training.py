"""Runs learn, and collaboration helps where it should."""

import numpy as np
import pytest

from fedmule.learning.evaluate import Evaluator


def run(algorithm, contacts, watch=None):
    evaluator = Evaluator(algorithm)
    before = evaluator.test.mean, evaluator.overview(0.0)
    for contact in contacts:
        algorithm.update(contact)
        evaluator.changed(contact.clients)
        evaluator.refresh()
        if watch:
            watch(evaluator, contact)
    return before, (evaluator.test.mean, evaluator.overview(contacts[-1].progress))


@pytest.mark.parametrize("seed", [1, 2])
def test_slack_and_fedavg_learn_the_synthetic_task(problem, contacts, seed):
    task = problem(clients=20, seed=seed, double=False, features=20, samples=(50, 200))
    visits = contacts(20, 100, seed=seed)
    for kind, gain in (("slack", 0.3), ("fedavg", 0.2)):
        before, after = run(task.build(kind), visits)
        assert after[0] > before[0] + gain


@pytest.mark.parametrize("kind", ["slack", "fedavg", "walkman"])
def test_tokens_learn_what_clients_share(shared, contacts, kind):
    keys = {"walkman": {"beta": 3.0}}.get(kind, {})
    before, after = run(shared().build(kind, **keys), contacts(20, 200))
    assert after[1].token_test_acc.mean() > max(0.75, before[1].token_test_acc.mean() + 0.3)


@pytest.mark.parametrize("seed", [1, 2])
def test_with_few_samples_slack_beats_training_alone(shared, contacts, seed):
    task = shared(seed=seed, samples=46, test_share=40 / 46)
    assert (task.data.train_count == 6).all()
    visits = contacts(20, 100, seed=seed)
    _, slack = run(task.build("slack"), visits)
    _, local = run(task.build("local"), visits)
    assert slack[0] > local[0] + 0.05


@pytest.mark.parametrize("eps", [0.0, 0.05])
def test_the_lagrangian_of_slack_falls(problem, contacts, eps):
    values = []

    def watch(evaluator, contact):
        values.append(evaluator.overview(contact.progress).lagrangian)

    task = problem(clients=10, double=False, features=10)
    before, _ = run(task.build("slack", eps=eps, open_at=2.0), contacts(10, 100), watch)
    tenths = np.mean(np.reshape(values, (10, 10)), axis=1)
    assert tenths[-1] < tenths[0] < before[1].lagrangian
    assert tenths[-1] < 0.8 * before[1].lagrangian


def test_models_stay_near_the_token_until_the_tube_opens(problem, contacts):
    found = []

    def watch(evaluator, contact):
        algorithm = evaluator._algorithm
        found.append((contact.progress, float((algorithm.models - algorithm.token).abs().max())))

    task = problem(clients=10, double=False, features=10)
    run(task.build("slack", open_at=0.5, beta=3.0), contacts(10, 100), watch)
    closed = max(distance for progress, distance in found if 0.4 < progress < 0.5)
    opened = max(distance for progress, distance in found if progress > 0.9)
    assert opened > 2 * closed
