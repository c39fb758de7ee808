"""Training alone: plans against a plain computation, clocks, held-out samples, clients with hardly any data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from making import common_settings

from fedmule.learning.algorithms.base import Task
from fedmule.learning.alone import Alone
from fedmule.learning.data.client_data import ClientData
from fedmule.learning.held_out import Trial, folds_of, steps_of_choice
from fedmule.learning.models.logistic import MLR
from fedmule.simulator.streams import Streams

LONG_S = 1e6


def task_of(problem: Any, **settings: Any) -> Task:
    own = {"batch_size": 5, **settings}
    return Task(problem.data, problem.model, common_settings(**own), problem.start, Streams(3).draw("alone"))


def alone(task: Task, longest: int = 64, steps_per_s: float = 1e3) -> Alone:
    everyone = np.arange(task.data.clients)
    return Alone(task, everyone, longest, np.full(len(everyone), steps_per_s), 1.0)


# --- against a plain computation ------------------------------------------------------------------------------


class Plain:
    """One client's training alone by plain loops in numpy: no folds at once, no compiled steps."""

    def __init__(self, task: Task, client: int, longest: int) -> None:
        data = task.data
        self.task, self.client, self.longest, self.classes = task, client, longest, data.classes
        self.x, self.y = data.features.numpy(), data.labels.numpy()
        rows = range(int(data.first[client]), int(data.first[client] + data.train_count[client]))
        chance = self.draw(5, len(rows))
        self.rows = [row for _, _, row in sorted(zip(self.y[list(rows)], chance, rows, strict=True))]
        held = max(1, len(rows) // 4)
        self.folds = 0 if len(rows) < 2 else min(4, len(rows), max(1, int(np.ceil(15 / held))))

    def draw(self, purpose: int, count: int) -> np.ndarray:
        """Purposes: 0 all samples, 1 to 4 folds, 5 their order; 6 of them for each length of plans."""
        counter = self.longest.bit_length() * 6 + purpose
        return self.task.draw(np.array([self.client]), np.array([counter]), count)[0]

    def scores(self, model: np.ndarray, row: int) -> np.ndarray:
        weights, bias = model[: -self.classes].reshape(self.classes, -1), model[-self.classes :]
        return weights @ self.x[row] + bias

    def train(self, rows: list[int], purpose: int, first_step: float, steps: int) -> np.ndarray:
        model, size = self.task.start.numpy().copy(), self.task.settings.batch_size
        chance = self.draw(purpose, self.longest * size if purpose else steps * size)
        for step in range(steps):
            quarter = next(q for q in range(4) if step < (q + 1) * steps // 4)
            gradient = np.zeros_like(model)
            for number in chance[step * size : (step + 1) * size]:
                row = rows[int(number * len(rows))]
                p = np.exp(self.scores(model, row) - self.scores(model, row).max())
                p /= p.sum()
                p[self.y[row]] -= 1
                gradient += np.append(np.outer(p, self.x[row]).ravel(), p) / size
            model -= first_step * (7 - 2 * quarter) / 8 * gradient
        return model

    def errors(self, first_step: float, steps: int) -> tuple[list[bool], list[float]]:
        wrong, losses = [], []
        for fold in range(self.folds):
            held = self.rows[fold::4]
            model = self.train([row for row in self.rows if row not in held], fold + 1, first_step, steps)
            for row in held:
                scores = self.scores(model, row)
                wrong.append(bool(scores.argmax() != self.y[row]))
                losses.append(float(np.log(np.exp(scores).sum()) - scores[self.y[row]]))
        return wrong, losses

    def plan(self) -> tuple[float, int]:
        usual, short = 4 * self.task.settings.step_size, round(self.longest / 4)
        if not self.folds:
            return usual, self.longest
        tried = {power: self.errors(usual * 4.0**power, short) for power in (-1, 0, 1)}
        while True:
            best = min(tried, key=lambda power: (sum(tried[power][0]), sum(tried[power][1])))
            beyond = {max(tried): best + 1, min(tried): best - 1}.get(best)
            if beyond is None or len(tried) == 5:
                break
            tried[beyond] = self.errors(usual * 4.0**beyond, short)
        if not (fewer(tried[best], tried[0]) or surer(tried[best], tried[0])):
            best = 0
        first_step, steps = usual * 4.0**best, self.longest
        if fewer(tried[best], self.errors(first_step, self.longest)):
            steps = short
            if fewer(self.errors(first_step, round(short / 4)), tried[best]):
                steps = round(short / 4)
        return first_step, steps


def fewer(one: Any, other: Any) -> bool:
    change = np.array(other[0], dtype=int) - np.array(one[0], dtype=int)
    return change.sum() > 2 * np.sqrt(np.abs(change).sum())


def surer(one: Any, other: Any) -> bool:
    lower = np.array(other[1]) - np.array(one[1])
    return sum(one[0]) <= sum(other[0]) and lower.sum() > 2 * np.sqrt(len(lower)) * np.std(lower)


@pytest.mark.parametrize("step_size", [0.002, 0.1, 3.0])
def test_plans_and_models_are_those_of_a_plain_computation(problem: Callable[..., Any], step_size: float) -> None:
    task = task_of(problem(samples=(4, 40)), step_size=step_size)
    found = alone(task)
    found.accuracy(LONG_S)
    plans = set()
    for client in range(task.data.clients):
        plain = Plain(task, client, 64)
        plan = plain.plan()
        assert (found.step_size[client], found.steps[client]) == plan
        expected = plain.train(plain.rows, 0, *plan)
        np.testing.assert_allclose(found.models[client].numpy(), expected, rtol=1e-9, atol=1e-9)
        plans.add(plan)
    assert len(plans) > 1  # they do not all keep the usual plan


def test_accuracy_is_that_of_the_models_on_test_samples(problem: Callable[..., Any]) -> None:
    task = task_of(problem())
    found = Alone(task, np.array([1, 4]), 32, np.full(7, 1e3), 1.0)
    accuracy = found.accuracy(LONG_S)
    assert np.isnan(np.delete(accuracy, [1, 4])).all()
    for i, client in enumerate((1, 4)):
        rows = slice(task.data.test_first[client], task.data.first[client + 1])
        right = task.model.scores(found.models[i], task.data.features[rows]).argmax(1) == task.data.labels[rows]
        assert accuracy[client] == pytest.approx(float(right.double().mean()))


def test_a_client_has_the_same_model_whoever_else_trains(problem: Callable[..., Any]) -> None:
    task = task_of(problem(double=False))
    everyone, one = alone(task), Alone(task, np.array([3]), 64, np.full(7, 1e3), 1.0)
    everyone.accuracy(LONG_S)
    one.accuracy(LONG_S)
    assert torch.equal(everyone.models[3], one.models[0])


# --- clocks ---------------------------------------------------------------------------------------------------


def test_steps_follow_the_clock_of_each_device(problem: Callable[..., Any]) -> None:
    task = task_of(problem(clients=3))
    found = Alone(task, np.arange(3), 100, np.array([50.0, 500.0, 5e9]), 100.0)  # 0.5, 5 and 5e7 steps per second
    np.testing.assert_array_equal(found.steps_by(1.99), [0, 9, 99_500_000])
    start = task.start.expand(3, -1)
    found.accuracy(1.99)
    assert torch.equal(found.models[0], start[0])
    np.testing.assert_array_equal(found.steps, [0, 6, 100])  # 100, 50, 25, 12, 6, …
    found.accuracy(2.0)
    np.testing.assert_array_equal(found.steps, [1, 6, 100])
    found.accuracy(199.0)
    np.testing.assert_array_equal(found.steps_by(199.0)[:2], [99, 995])
    assert found.steps[0] in (50, 12, 3)


def test_a_model_depends_on_the_time_alone(problem: Callable[..., Any]) -> None:
    often, once = (alone(task_of(problem()), longest=128, steps_per_s=1.0) for _ in range(2))
    for now in range(0, 70, 7):
        often.accuracy(now)
    once.accuracy(64.0)
    often.accuracy(70.0)
    assert torch.equal(often.models, once.models)
    assert once.gradient_steps < often.gradient_steps


def test_nothing_is_computed_before_it_is_needed_nor_after_the_longest_plan(problem: Callable[..., Any]) -> None:
    found = alone(task_of(problem()), longest=64, steps_per_s=1.0)
    found.accuracy(0.99)
    assert found.gradient_steps == 0
    found.accuracy(64.0)
    spent = found.gradient_steps
    assert spent > 0
    found.accuracy(1e9)
    assert found.gradient_steps == spent


@pytest.mark.parametrize("steps_per_s", [1.0, 1e6])
def test_steps_stay_within_the_bound(problem: Callable[..., Any], steps_per_s: float) -> None:
    task = task_of(problem(clients=9), step_size=0.01)
    found = alone(task, 200, steps_per_s)
    for now in (1, 3, 10, 30, 60, 110, 250):
        found.accuracy(float(now))
    folds = folds_of(task.data.train_count)
    bound = sum(200 * steps_of_choice(float(count)) + 10 * count for count in folds)  # and rounding of lengths
    assert found.gradient_steps <= bound * (2 if steps_per_s == 1.0 else 1)


# --- samples --------------------------------------------------------------------------------------------------


def test_test_samples_are_never_touched(problem: Callable[..., Any]) -> None:
    plain = problem()
    data = plain.data
    features, labels = data.features.clone(), data.labels.clone()
    for client in range(data.clients):
        features[data.test_first[client] : data.first[client + 1]] = torch.nan
        labels[data.test_first[client] : data.first[client + 1]] = 0
    spoiled = replace(data, features=features, labels=labels)
    one, other = alone(task_of(plain)), alone(task_of(replace(plain, data=spoiled)))
    one.accuracy(LONG_S)
    other.accuracy(LONG_S)
    assert torch.equal(one.models, other.models)
    assert not torch.equal(one.models, one._start)


def made_data(counts: list[int], labels: Callable[[int, int], list[int]]) -> ClientData:
    """Clients with these numbers of training samples and one test sample each."""
    first = np.concatenate([[0], np.cumsum(np.array(counts) + 1)])
    generator = np.random.default_rng(1)
    features = torch.from_numpy(generator.normal(size=(int(first[-1]), 4)).astype(np.float32))
    found = [label for client, count in enumerate(counts) for label in labels(client, count + 1)]
    return ClientData(features, torch.tensor(found), 3, first, np.array(counts))


def test_clients_with_hardly_any_samples_or_one_class_train_too() -> None:
    data = made_data([1, 2, 3, 5, 40], lambda client, count: [client % 3] * count)
    model = MLR(4, 3)
    start = model.start(np.random.default_rng(0))
    found = alone(Task(data, model, common_settings(), start, Streams(0).draw("alone")))
    assert np.isfinite(found.accuracy(LONG_S)).all()
    assert found.steps[0] == 64
    for client, count in enumerate(data.train_count):
        rows = slice(data.first[client], data.first[client] + count)
        assert torch.equal(model.scores(found.models[client], data.features[rows]).argmax(1), data.labels[rows])


def test_folds_are_many_where_samples_are_few() -> None:
    np.testing.assert_array_equal(folds_of(np.array([1, 2, 3, 4, 15, 20, 40, 60, 5000])), [0, 2, 3, 4, 4, 3, 2, 1, 1])


def test_a_model_that_diverges_is_not_kept(problem: Callable[..., Any]) -> None:
    found = alone(task_of(problem(double=False), step_size=1e38))
    accuracy = found.accuracy(LONG_S)
    assert torch.isfinite(found.models).all()
    assert np.isfinite(accuracy).all()


def test_what_counts_as_clearly_better() -> None:
    def trial(wrong: list[int], loss: list[float]) -> Trial:
        return Trial(np.array(wrong, dtype=bool), np.array(loss))

    worse, zeros = trial([1] * 5 + [0] * 5, [1.0] * 10), [0.0] * 10
    assert trial([0] * 10, zeros).clearly_fewer(worse)  # 5 fewer > 2 √5
    assert not trial([1] + [0] * 9, zeros).clearly_fewer(worse)  # 4 fewer = 2 √4
    assert not worse.clearly_fewer(worse)
    assert trial([1] * 5 + [0] * 5, zeros).clearly_surer(worse)
    assert not trial([1] * 6 + [0] * 4, zeros).clearly_surer(worse)
    assert worse.clearly_surer(trial([1] * 10, [np.inf] * 10))
    assert not trial([1] * 10, [np.inf] * 10).clearly_surer(worse)


# --- clients that move ----------------------------------------------------------------------------------------


def test_clients_that_move_go_on_from_the_model_they_have(problem: Callable[..., Any]) -> None:
    task = task_of(problem())
    found = alone(task, steps_per_s=1.0)
    movers = np.array([2, 5])
    found.leave(movers, 40.0)
    assert torch.equal(found.models[0], task.start)  # nobody has asked for the others yet
    found.accuracy(40.0)
    np.testing.assert_array_equal(found.steps_by(40.0), 40)
    before = found.models.clone()
    assert not torch.equal(before, found._start)
    for client in movers:
        rows = slice(task.data.first[client], task.data.first[client + 1])
        task.data.labels[rows] = (task.data.labels[rows] + 1) % 3
    found.arrive(movers, 40.0)
    assert torch.equal(found.models, before)
    np.testing.assert_array_equal(found.steps_by(42.0), [42, 42, 2, 42, 42, 2, 42])
    accuracy = found.accuracy(60.0)
    moved = np.isin(np.arange(7), movers)
    assert torch.equal(found.models[~moved], before[~moved])
    assert not torch.equal(found.models[moved], before[moved])
    np.testing.assert_array_equal(found.accuracy(60.0), accuracy)
