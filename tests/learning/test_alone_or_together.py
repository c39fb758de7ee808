"""Alone or together: trials on samples held out, the choice, who takes part then, and what clients use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from making import common_settings

from fedmule.learning.algorithms.base import Contact, Steps, Task
from fedmule.learning.alone import Alone
from fedmule.learning.alone_or_together import ALONE, EVERY, TOGETHER, TRYING, AloneOrTogether
from fedmule.learning.at_contact import AtContact
from fedmule.learning.evaluate import Evaluator
from fedmule.learning.held_out import judge
from fedmule.learning.learner import Learner
from fedmule.learning.tokens import carried_by
from fedmule.simulator.streams import Streams

STEPS_PER_S = 10.0


def learner_of(problem: Any, longest: int = 64, kind: str = "rwsadmm", vehicles: int = 1, **keys: Any) -> Learner:
    """A learner whose clients choose, each with a pace of ten steps per second."""
    algorithm = problem.build(kind, try_at=0.25, batch_size=5, **keys)
    task = Task(problem.data, problem.model, common_settings(batch_size=5), problem.start, Streams(3).draw("alone"))
    everyone = np.arange(problem.data.clients)
    alone = Alone(task, everyone, longest, np.full(len(everyone), STEPS_PER_S), 1.0, everyone)
    choice = AloneOrTogether(algorithm, alone, replace(task, draw=Streams(3).draw("trials alone")), algorithm.try_at)
    carried = carried_by(vehicles, algorithm)
    training = AtContact(algorithm, carried)
    evaluator = Evaluator(algorithm)
    return Learner(algorithm, carried, evaluator, torch.device("cpu"), 0, None, training, alone, choice)


def visit(learner: Learner, clients: list[int], progress: float, vehicle: int = 0) -> Any:
    """A contact with these clients that gets through; returns its cost and the update."""
    who, now_s = np.array(clients), 1000 * progress
    cost = learner.begin(vehicle, who, progress, now_s, clients[0], who)
    contact = Contact(who, len(who), progress, clients[0], who, ended_s=now_s)
    return cost, learner.update(vehicle, contact)


def drive(learner: Learner, visits: int = 200, seed: int = 0, vehicles: int = 1) -> None:
    generator, count = np.random.default_rng(seed), learner.algorithm.data.clients
    for k in range(visits):
        clients = np.sort(generator.choice(count, int(generator.integers(1, 4)), replace=False))
        visit(learner, clients.tolist(), k / visits, k % vehicles)


def alike(shared: Any, **keys: Any) -> Any:
    """Clients with one task and few samples: together is better."""
    return shared(clients=12, samples=24, **keys)


def different(shared: Any) -> Any:
    """Clients with a task of their own each and many samples: alone is better."""
    made, generator = shared(clients=12, samples=160), np.random.default_rng(2)
    labels = made.data.labels.clone()
    for client in range(12):
        rows = slice(160 * client, 160 * (client + 1))
        labels[rows] = (made.data.features[rows] @ torch.from_numpy(generator.normal(size=(8, 4))).float()).argmax(
            dim=1
        )
    return replace(made, data=replace(made.data, labels=labels))


def test_where_all_share_a_task_they_stay_together(shared: Any) -> None:
    learner = learner_of(alike(shared))
    drive(learner)
    assert learner.choice is not None
    assert (learner.choice.choice == TOGETHER).all()
    assert learner.clients_alone == 0
    learner.refresh(1000.0)
    assert learner.test.mean > learner.alone_accuracy(1000.0).mean() + 0.03


def test_where_tasks_differ_they_are_as_good_as_alone(shared: Any) -> None:
    learner, bound = (learner_of(different(shared), longest=400, kind=kind) for kind in ("rwsadmm", "relay"))
    bound.choice = None
    drive(learner)
    drive(bound)
    assert learner.choice is not None
    assert (learner.choice.choice == ALONE).mean() > 0.8
    for one in (learner, bound):
        one.refresh(1000.0)
    alone = learner.alone_accuracy(1000.0)
    assert abs(learner.test.mean - alone.mean()) < 0.01
    assert learner.test.mean > bound.test.mean + 0.02
    stay = learner.choice.choice == ALONE
    np.testing.assert_allclose(learner.test.accuracy[stay], alone[stay])


def test_half_the_clients_with_other_labels_choose_each_for_itself(shared: Any) -> None:
    """Half of the clients have their labels renamed, each in its own way: the token is of use to the others only."""
    made = shared(clients=16, samples=160, classes=4)
    labels, generator = made.data.labels.clone(), np.random.default_rng(5)
    for client in range(1, 16, 2):
        rows = slice(int(made.data.first[client]), int(made.data.first[client + 1]))
        shift = 1 + int(generator.integers(0, 3))
        labels[rows] = (labels[rows] + shift) % 4
    learner = learner_of(replace(made, data=replace(made.data, labels=labels)))
    drive(learner, 400)
    learner.refresh(1000.0)
    assert learner.test.mean > learner.alone_accuracy(1000.0).mean() - 0.01


# --- the trial --------------------------------------------------------------------------------------------------


def test_what_is_held_out_is_not_learnt_from(shared: Any) -> None:
    """Other labels there do not change the token, until a client has chosen."""
    made = alike(shared)
    labels = made.data.labels.clone()
    held = made.data.train_count // 4
    for client, count in enumerate(held.tolist()):
        end = int(made.data.first[client] + made.data.train_count[client])
        labels[end - count : end] = (labels[end - count : end] + 1) % 4
    changed = replace(made, data=replace(made.data, labels=labels))
    one, other = learner_of(made, centre=0.5), learner_of(changed, centre=0.5)  # held out for something else, too
    for k in range(24):
        for learner in (one, other):
            visit(learner, [k % 12], 0.2)
            assert learner.choice is not None
            if (learner.choice.choice != TRYING).any():
                return  # whoever has chosen learns from all its samples
        assert torch.equal(one.algorithm.token, other.algorithm.token)
    pytest.fail("nobody chose")


def test_counts_against_a_plain_computation(shared: Any) -> None:
    made = alike(shared)
    learner = learner_of(made)
    data, choice = made.data, learner.choice
    assert choice is not None
    visit(learner, [4], 0.2)
    held = int(data.train_count[4] // 4)
    end = int(data.first[4] + data.train_count[4])
    rows = np.arange(end - held, end)
    x, y = data.features.numpy()[rows].astype(float), data.labels.numpy()[rows]

    def wrong(model: np.ndarray) -> np.ndarray:
        return np.asarray((x @ model[:-4].reshape(4, -1).T + model[-4:]).argmax(axis=1) != y)

    # Alone: 64 steps on the samples that are not held out, in four parts of a falling step size.
    model = made.start.numpy().astype(float)
    pool, steps, size = int(data.train_count[4]) - held, 64, 5
    chance = Streams(3).draw("trials alone")(np.array([4]), np.array([steps]), steps * size)[0]
    for step in range(steps):
        batch = int(data.first[4]) + (chance[step * size : (step + 1) * size] * pool).astype(int)
        a, b = data.features.numpy()[batch].astype(float), data.labels.numpy()[batch]
        p = np.exp(a @ model[:-4].reshape(4, -1).T + model[-4:])
        p /= p.sum(axis=1, keepdims=True)
        p[np.arange(size), b] -= 1
        gradient = np.append((p.T @ a).ravel(), p.sum(axis=0)) / size
        model -= 4 * 0.1 * (7 - 2 * (step // 16)) / 8 * gradient
    token, alone = wrong(learner.algorithm.models[4].numpy().astype(float)), wrong(model)
    np.testing.assert_array_equal(choice.counts[4], [held, (token & ~alone).sum(), (alone & ~token).sum()])


def test_differences_are_shrunk_to_their_mean(shared: Any) -> None:
    choice = learner_of(alike(shared)).choice
    assert choice is not None
    choice.counts[:4] = [[40, 8, 0], [40, 6, 2], [4, 0, 1], [40, 0, 8]]
    held = choice.counts[:4, 0]
    rate = (8 + 8 + 1 + 8 + 1) / held.sum()
    d, v = np.array([8, 4, -1, -8]) / held, rate / held
    spread = max(0.0, d.var(ddof=1) - v.mean())
    weights = 1 / (spread + v)
    mean = (weights * d).sum() / weights.sum()
    found, at, error = choice.advantage(np.array([0, 2, 7]))
    assert at == pytest.approx(mean)
    assert error == pytest.approx(weights.sum() ** -0.5)
    for i, client in enumerate((0, 2)):
        expected = (spread * d[client] + v[client] * mean) / (spread + v[client])
        assert found[i] == pytest.approx(expected)
    assert found[2] == pytest.approx(mean)  # has not tried


def test_trials_of_a_much_younger_token_do_not_count(shared: Any) -> None:
    """A trial counts until the token is made of twice as many results as it was then."""
    choice = learner_of(alike(shared)).choice
    assert choice is not None
    choice.counts[:4] = [[20, 9, 0], [20, 0, 3], [20, 0, 4], [20, 0, 5]]
    choice._results_then[:4], choice._results = [10, 20, 25, 40], 40
    found, mean, _ = choice.advantage(np.array([0, 1]))
    choice.counts[0] = 0  # as if it had not tried
    expected, expected_mean, _ = choice.advantage(np.array([0, 1]))
    assert (found.tolist(), mean) == (expected.tolist(), expected_mean)
    assert mean < 0
    choice._results = 19
    choice.counts[0] = [20, 9, 0]
    assert choice.advantage(np.array([0]))[1] > mean


def test_the_token_is_chosen_as_soon_as_it_is_clearly_better_and_training_alone_at_last(shared: Any) -> None:
    for count, progress, expected in (
        ([20, 0, 15], 0.11, TOGETHER),  # clearly better, by two standard errors
        ([20, 10, 13], 0.11, TRYING),  # by one or two: not yet, …
        ([20, 10, 13], 0.2, TOGETHER),  # … but later
        ([20, 15, 0], 0.2, TRYING),  # clearly worse: the token may grow better yet
        ([20, 15, 0], 0.3, ALONE),
        ([20, 11, 11], 0.2, TRYING),
        ([20, 11, 11], 0.3, TOGETHER),
    ):
        learner = learner_of(alike(shared))
        choice = learner.choice
        assert choice is not None
        choice.counts[:8], choice._results_then[:8], choice._results = count, 20, 20
        choice._choose(np.array([3]), progress)
        assert choice.choice[3] == expected, (count, progress)


def test_a_token_of_few_results_is_taken_only_if_it_is_clearly_better(shared: Any) -> None:
    for count, expected in (([20, 9, 10], ALONE), ([20, 8, 16], TOGETHER)):
        learner = learner_of(alike(shared))
        choice = learner.choice
        assert choice is not None
        choice.counts[:8], choice._results_then[:8], choice._results = count, 11, 11  # of twelve clients
        choice._choose(np.array([3]), 0.3)
        assert choice.choice[3] == expected
        choice._settled[3], choice._results = False, 12
        choice._choose(np.array([3]), 0.3)
        assert choice.choice[3] == TOGETHER


def test_who_has_chosen_the_token_early_chooses_once_more(shared: Any) -> None:
    learner = learner_of(alike(shared))
    choice = learner.choice
    assert choice is not None
    choice.counts[:8] = [20, 0, 15]
    choice._choose(np.array([3, 4]), 0.12)
    assert (choice.choice[[3, 4]] == TOGETHER).all()
    choice.counts[:8] = [20, 15, 0]  # others have found since that it is not worth it
    choice._choose(np.array([3]), 0.2)
    assert choice.choice[3] == TOGETHER  # not before `try_at`
    choice._choose(np.array([3]), 0.3)
    assert choice.choice[[3, 4]].tolist() == [ALONE, TOGETHER]
    choice.counts[:8] = [20, 0, 15]
    choice._choose(np.array([3]), 0.4)
    assert choice.choice[3] == ALONE  # for good


def test_nothing_is_known(shared: Any) -> None:
    choice = learner_of(alike(shared)).choice
    assert choice is not None
    better, mean, error = choice.advantage(np.array([0, 1]))
    assert (better.tolist(), mean, error) == ([0.0, 0.0], 0.0, np.inf)


# --- when they choose, and what follows ---------------------------------------------------------------------------


def test_nobody_tries_with_a_token_that_is_not_worth_it_yet(shared: Any) -> None:
    learner = learner_of(alike(shared))
    visit(learner, [0, 1, 2], 0.05)
    assert learner.choice is not None
    assert not learner.choice.counts.any()
    visit(learner, [0, 1, 2], 0.12)
    assert learner.choice.counts[:3, 0].all()


def test_clients_met_late_choose_at_once(shared: Any) -> None:
    learner = learner_of(alike(shared))
    choice = learner.choice
    assert choice is not None
    choice._results_then[:8] = 9  # not long ago
    choice.counts[:8] = [20, 15, 0]  # the token is bad for all that have tried
    visit(learner, [9], 0.5)
    assert choice.choice[9] == ALONE
    choice.counts[:8] = [20, 0, 15]
    visit(learner, [10], 0.5)
    assert choice.choice[10] == TOGETHER
    assert not learner.algorithm.withheld[[9, 10]].any()
    choice.counts[:] = 0  # nobody has tried, and the token is made of three results only
    visit(learner, [11], 0.5)
    assert choice.choice[11] == ALONE
    choice._results = 12  # one per client: the token
    visit(learner, [7], 0.5)
    assert choice.choice[7] == TOGETHER


def test_who_is_alone_takes_part_now_and_then(shared: Any) -> None:
    learner = learner_of(alike(shared))
    choice, size = learner.choice, learner.algorithm.model_bytes
    assert choice is not None
    choice.choice[3], choice._settled[3] = ALONE, True
    down = []
    for _ in range(2 * EVERY):
        before = learner.algorithm.token.clone()
        cost, update = visit(learner, [3], 0.5)
        down.append(cost.bytes_down.tolist() == [size])
        assert (update.gradient_steps > 0).tolist() == [down[-1]]
        assert torch.equal(before, learner.algorithm.token) != down[-1]
        assert cost.flops[0] > 0 or not down[-1]
    assert down == 2 * ([False] * (EVERY - 1) + [True])
    cost, update = visit(learner, [2, 3], 0.5)  # one of two
    assert cost.bytes_down.tolist() == [size, 0]
    assert update.gradient_steps.tolist() == [10, 0]
    assert not any(visit(learner, [3], 0.9)[0].bytes_down for _ in range(EVERY))  # the token is frozen


def test_a_client_alone_takes_more_steps_where_its_plans_are_too_short(shared: Any) -> None:
    """Plans of 32 steps and ten steps per contact: from the fourth contact on it goes on with its own model.

    When it first does so it takes the steps of the contacts since, too, at which it took part with the token.
    """
    learner = learner_of(alike(shared), longest=32)
    choice, algorithm = learner.choice, learner.algorithm
    assert choice is not None
    choice.choice[3], choice._settled[3] = ALONE, True
    expected = learner.model(3, 999.0).clone()
    for contact in range(3):
        visit(learner, [3], 0.5)
        assert torch.equal(learner.model(3, 500.0), expected), contact
    first = 4
    for _ in range(2 * EVERY):
        batches = int(algorithm.participations[3])
        _, update = visit(learner, [3], 0.5)
        if update.gradient_steps[0]:  # it takes part, with the token
            continue
        for number in range(first, batches + 2):
            steps = Steps(np.array([3]), np.array([number]), 0, algorithm.settings.local_steps)
            for rows in algorithm._rows({}, steps, 0, algorithm.settings.local_steps):
                g, _ = algorithm.model.gradient(
                    expected.unsqueeze(0), algorithm.data.features[rows], algorithm.data.labels[rows]
                )
                expected = expected - algorithm.settings.step_size * g[0]
        torch.testing.assert_close(learner.model(3, 500.0), expected)
        first = batches + 2
    choice.forget(np.array([3]))
    assert torch.equal(learner.model(3, 500.0), learner.alone.model(3, 500.0))  # type: ignore[union-attr]


def test_a_client_is_tried_with_the_steps_it_would_take_alone_before_it_chooses(shared: Any) -> None:
    """Plans of 32 steps and ten steps per contact: with the eighth contact it chooses, after 80 steps."""
    learner = learner_of(alike(shared), longest=32)
    choice, algorithm = learner.choice, learner.algorithm
    assert choice is not None
    for contact in range(7):
        visit(learner, [3], 0.15 + 0.01 * contact)
        choice.choice[3] = TRYING
    held = int(algorithm.withheld[3])
    planned = choice._judged[3][1]
    x = choice._train(3, held, 32)
    end = int(algorithm.data.first[3] + algorithm.data.train_count[3])
    rows = slice(end - held, end)
    labels = algorithm.data.labels[rows].numpy()
    np.testing.assert_array_equal(planned, judge(choice._task, x, rows, labels).wrong)
    for number in range(4, 9):
        steps = Steps(np.array([3]), np.array([number]), 0, algorithm.settings.local_steps)
        x = algorithm.train_alone(x.unsqueeze(0), steps)[0]
    visit(learner, [3], algorithm.try_at)
    assert choice.choice[3] != TRYING
    np.testing.assert_array_equal(choice._judged[3][1], judge(choice._task, x, rows, labels).wrong)


def test_a_client_that_is_never_met_uses_what_it_trains_alone(shared: Any) -> None:
    learner = learner_of(alike(shared))
    learner.refresh(0.0)
    start = learner.test.accuracy[5]
    for now_s in (0.5, 3.0, 100.0):  # 5, 30 and more than 64 steps: plans of 4, 16 and 64
        learner.refresh(now_s)
        assert learner.test.accuracy[5] == pytest.approx(learner.alone_accuracy(now_s)[5])
    assert learner.test.accuracy[5] > start
    assert torch.equal(learner.model(5, 100.0), learner.alone.models[5])  # type: ignore[union-attr]


def test_who_has_chosen_the_token_uses_it(shared: Any) -> None:
    learner = learner_of(alike(shared))
    learner.choice._results = 12  # type: ignore[union-attr]
    visit(learner, [0, 1], 0.5)
    assert torch.equal(learner.model(0, 500.0), learner.algorithm.models[0])


@pytest.mark.parametrize("count", [1, 3])
def test_clients_with_hardly_any_samples_take_the_token(shared: Any, count: int) -> None:
    made = shared(clients=6, samples=8)
    data = replace(made.data, train_count=np.full(6, count))
    learner = learner_of(replace(made, data=data))
    drive(learner, 60)
    assert learner.choice is not None
    assert not learner.choice.counts.any()
    assert (learner.choice.choice == TOGETHER).all()


def test_other_data_other_trials(shared: Any) -> None:
    learner = learner_of(alike(shared))
    visit(learner, [0, 1], 0.2)
    assert learner.choice is not None
    learner.choice.forget(np.array([0]))
    assert not learner.choice.counts[0].any()
    assert learner.choice.counts[1].any()


@pytest.mark.parametrize("kind", ["slack", "neighbourhood"])
def test_other_forms_of_the_token(shared: Any, kind: str) -> None:
    learner = learner_of(alike(shared), kind=kind)
    drive(learner)
    learner.refresh(1000.0)
    assert learner.test.mean > learner.alone_accuracy(1000.0).mean() - 0.005


def test_several_vehicles(shared: Any) -> None:
    learner = learner_of(alike(shared), vehicles=2)
    drive(learner, vehicles=2)
    learner.refresh(1000.0)
    assert (learner.choice.choice != TRYING).all()  # type: ignore[union-attr]
    assert learner.test.mean > learner.alone_accuracy(1000.0).mean()
