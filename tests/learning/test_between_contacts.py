"""Training between contacts: how many steps, from what, what is handed over, and that it matters to nobody who asks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from making import make
from test_under_way import overlapping

from fedmule.learning.algorithms.base import Algorithm, Contact, Update
from fedmule.learning.algorithms.fedavg import FedAvg
from fedmule.learning.algorithms.local import Local
from fedmule.learning.between_contacts import AT_ONCE, BetweenContacts
from fedmule.learning.evaluate import Evaluator
from fedmule.learning.learner import Learner
from fedmule.learning.tokens import carried_by
from fedmule.simulator.runs.state import load_state, save_state

CASES: dict[str, dict[str, Any]] = {
    **{
        kind: {}
        for kind in ("slack", "relay", "rwsadmm", "derived", "walkman", "ditto", "apfl", "pfedme", "per_fedavg", "ifca")
    },
    "slack, all": {"growing_mean": False},
    "neighbourhood": {},
    "neighbourhood, eb": {"rho": "eb"},
    "printed": {},
    "fedavg": {},
    "fedavg, tuned": {"fine_tune": True},
    "per_fedavg, free": {"variant": "hessian_free"},
    "fedavg, averaged": {"fine_tune": True, "token_mean": 0.9, "fine_tune_step_size": 0.03},
    **{kind: {} for kind in ("fedper", "fedrep", "fedrod", "fedala", "feddbe")},
    "fedbabu": {"token_mean": 0.5},
    "fedex_sync": {},
    "fedex_async": {"staleness": "published"},
    "fedex_async, aged": {"staleness": 0.5, "fine_tune": True},
    "squad_oracle": {},
    "local": {},
    "local, ditto": {},
}
ONE_STEP = ("derived", "printed", "walkman")
EVERYONE = np.arange(7)


def build(problem: Any, case: str, between: bool = True, **keys: Any) -> Any:
    kind, _, reference = case.partition(", ")
    made = problem(kind=kind)
    object.__setattr__(made.data, "site", np.arange(made.data.clients) % 2)
    own = {"beta": 5.0, "kappa": 0.1, "clusters": 2, "open_at": 1.0, **CASES[case], **keys}
    parts = (made.data, made.model, made.start, made.draw)
    theirs = make(reference, *parts, between_contacts=between, **own) if reference == "ditto" else None
    algorithm = make(kind, *parts, theirs, between_contacts=between, **own)
    if kind == "printed":  # its own start never moves
        algorithm.token = made.start.clone()
        algorithm.models = 0.01 * torch.from_numpy(np.random.default_rng(0).normal(size=algorithm.models.shape))
    return algorithm


def learner_of(algorithm: Any, rate: float = 2.0, max_steps: int = 40, vehicles: int = 1) -> Learner:
    """A learner whose clients compute `rate` gradients per second; client i is 1 + i/10 times as fast."""
    carried = carried_by(vehicles, algorithm)
    flops_per_s = rate * (1 + np.arange(algorithm.data.clients) / 10) * algorithm.flops_per_step()
    training = BetweenContacts(algorithm, carried, flops_per_s, max_steps)
    return Learner(algorithm, carried, Evaluator(algorithm), torch.device("cpu"), 0, None, training)


def meet(learner: Learner, clients: Any, began_s: float, ended_s: float, progress: float = 0.1) -> Update:
    clients = np.array(clients)
    visited = int(clients[0])
    learner.begin(0, clients, progress, began_s, visited, clients)
    update = learner.update(0, Contact(clients, len(clients), progress, visited, clients, ended_s))
    assert update is not None
    return update


def everything(algorithm: Any) -> dict[str, np.ndarray]:
    parts = {k: v for k, v in vars(algorithm).items() if isinstance(v, torch.Tensor | np.ndarray)}
    found = {k: np.array(v.tolist()) for k, v in parts.items()}
    if isinstance(algorithm, Local):
        found |= {f"reference.{k}": v for k, v in everything(algorithm.reference).items()}
    return found


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("count", [1, 5, AT_ONCE, 2 * AT_ONCE + 3])
def test_a_result_is_that_of_as_many_steps_at_a_contact(problem: Any, case: str, count: int) -> None:
    """Given at one contact and handed over at the next: the same bits as a contact with that many local steps."""
    own = {"local_steps": count} if case == "fedrep" else {}  # which divides them
    algorithm, plain = build(problem, case, **own), build(problem, case, between=False, local_steps=count)
    learner = learner_of(algorithm)
    client = np.array([3])
    first = meet(learner, [3], 0.0, 10.0)
    assert first.train_loss is None
    assert first.gradient_steps.tolist() == [0]
    assert (first.token_step_norm, first.age_s) == (0.0, None)
    assert algorithm.participations.tolist() == [0, 0, 0, 1, 0, 0, 0]
    before = everything(plain)
    needed_s = (plain.gradients(count) * plain.flops_per_step() + plain.preparation_flops(client, 0.1)[0]) / (
        2.0 * 1.3 * plain.flops_per_step()
    )
    expected = plain.update(Contact(client, 1, 0.1, 3, client))
    second = meet(learner, [3], 10.0 + needed_s + 1e-6, 90.0)
    assert second.gradient_steps.tolist() == [expected.gradient_steps]
    assert second.train_loss == pytest.approx(expected.train_loss, rel=1e-12)
    assert second.token_step_norm == expected.token_step_norm
    assert second.kappa == expected.kappa
    assert second.age_s == (None if case.startswith("local") else 90.0)
    after, one_step = everything(plain), case in ONE_STEP
    for name, value in everything(algorithm).items():
        if not name.endswith(("participations", "_tries_at")):
            np.testing.assert_array_equal(value, after[name], err_msg=name)
    assert (after["models"] != before["models"]).any()
    assert expected.gradient_steps == (1 if one_step else plain.gradients(count))


@pytest.mark.parametrize("case", CASES)
def test_the_number_of_steps_is_what_there_was_time_for(problem: Any, case: str) -> None:
    algorithm = build(problem, case)
    learner = learner_of(algorithm, max_steps=9)
    per = algorithm.gradients(2) - algorithm.gradients(1)
    preparation = algorithm.preparation_flops(EVERYONE, 0.1) / algorithm.flops_per_step()
    meet(learner, EVERYONE, 1.0, 2.0)
    for elapsed_s in np.random.default_rng(1).uniform(0, 60, 25).tolist():
        budget = elapsed_s * 2.0 * (1 + EVERYONE / 10) - preparation
        possible = range(1, (9 if per else 1) + 1)
        expected = [max([k for k in possible if algorithm.gradients(k) <= b], default=0) for b in budget]
        assert learner.training._steps(EVERYONE, 2.0 + elapsed_s).tolist() == expected
    assert learner.training._steps(EVERYONE, 1e9).tolist() == [9 if per else 1] * 7


def test_clients_of_a_contact_hand_over_what_each_has_had_time_for(problem: Any) -> None:
    algorithm = build(problem, "fedavg")
    learner = learner_of(algorithm, rate=1.0)
    start = algorithm.token.clone()
    meet(learner, [1], 0.0, 1.0)
    meet(learner, [4], 5.0, 6.0)
    learner.begin(0, np.array([0, 1, 4]), 0.1, 11.5)
    update = learner.update(0, Contact(np.array([0, 1, 4]), 3, 0.1, ended_s=12.0))
    steps = [0, math.floor(10.5 * 1.1), math.floor(5.5 * 1.4)]
    assert update.gradient_steps.tolist() == steps
    assert update.age_s == pytest.approx(((12.0 - 0.0) + (12.0 - 5.0)) / 2)
    models, counts = [], []
    for client, k in zip((1, 4), steps[1:], strict=True):
        alone = build(problem, "fedavg", between=False, local_steps=k)
        alone.update(Contact(np.array([client]), 1, 0.1))
        models.append(alone.models[client])
        counts.append(float(alone.data.train_count[client]))
        assert torch.equal(algorithm.models[client], alone.models[client])
    mean = sum(n * x for n, x in zip(counts, models, strict=True)) / sum(counts)
    torch.testing.assert_close(algorithm.token, mean, rtol=1e-6, atol=1e-9)
    assert torch.equal(algorithm.models[0], start)  # it has handed nothing over yet
    assert torch.equal(learner.training.model(0, 12.0), start)  # and holds what it was given


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("vehicles", [1, 2])
def test_asking_often_changes_no_bit(problem: Any, case: str, vehicles: int) -> None:
    """Random overlapping exchanges, some of them lost, evaluated at every turn or never; with the opening."""
    runs = []
    for asks in (False, True):
        learner = learner_of(build(problem, case, open_at=0.6), vehicles=vehicles)
        now_s, draw, made = 0.0, np.random.default_rng(3), overlapping(2, 30)
        updates, by, at = [], {}, {}
        for number, (what, asked, delivered) in enumerate(made):
            now_s += float(draw.exponential(4.0))
            if what == "begin":
                by[tuple(asked)], at[tuple(asked)] = int(draw.integers(vehicles)), number / len(made)
                learner.begin(by[tuple(asked)], asked, at[tuple(asked)], now_s, int(asked[0]), asked)
            else:
                learner.drop(np.setdiff1d(asked, delivered))
                vehicle, progress = by.pop(tuple(asked)), at.pop(tuple(asked))
                updates.append(learner.update(vehicle, Contact(delivered, 3, progress, int(asked[0]), asked, now_s)))
            if asks:
                learner.overview(number / len(made), now_s)
                learner.refresh(now_s)
                learner.refresh(now_s + 0.3)
        learner.refresh(now_s + 5.0)
        runs.append((updates, everything(learner.algorithm), learner.test.accuracy.copy()))
    (one, state, accuracy), (other, again, same) = runs
    assert [repr(update) for update in one] == [repr(update) for update in other]
    for name, value in state.items():
        np.testing.assert_array_equal(value, again[name], err_msg=name)
    np.testing.assert_array_equal(accuracy, same)
    assert sum(update is not None and update.train_loss is not None for update in one) > 10


def test_an_evaluation_sees_the_model_that_a_client_holds(problem: Any, plain: Any) -> None:
    learner = learner_of(build(problem, "ditto"), rate=1.0, max_steps=25)
    before = learner.test.accuracy.copy()
    meet(learner, [2, 5], 0.0, 0.0)
    for elapsed_s in (3.2, 3.3, 18.0, 500.0):
        learner.refresh(elapsed_s)
        for client in (2, 5):
            k = min(25, math.floor(elapsed_s * (1 + client / 10) / 2))
            alone = build(problem, "ditto", between=False, local_steps=k)
            alone.update(Contact(np.array([client]), 1, 0.1))
            assert torch.equal(learner.training.model(client, elapsed_s), alone.models[client])
            expected = plain.test_accuracy(alone.models[client].numpy(), alone.data, client)
            assert learner.test.accuracy[client] == pytest.approx(expected)
    others = [0, 1, 3, 4, 6]
    np.testing.assert_array_equal(learner.test.accuracy[others], before[others])
    assert (learner.test.accuracy != before).any()


def test_nothing_is_computed_for_clients_that_nobody_asks_about(problem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[int] = []
    train = FedAvg.train
    monkeypatch.setattr(
        FedAvg, "train", lambda self, work, steps: trained.append(int(steps.clients[0])) or train(self, work, steps)
    )
    learner = learner_of(build(problem, "fedavg"))
    meet(learner, EVERYONE, 0.0, 1.0)
    learner.cost(0, EVERYONE, 0.1, 50.0)
    assert not trained
    meet(learner, [2], 60.0, 61.0)
    assert set(trained) == {2}


def test_cost_of_a_contact(problem: Any) -> None:
    """No computation; a model up only from those that have a result."""
    algorithm = build(problem, "slack", open_at=0.5)
    learner = learner_of(algorithm)
    size = 4 * algorithm.model.parameters
    meet(learner, [1, 2], 0.0, 1.0)
    meet(learner, [2], 50.0, 50.0)
    cost = learner.cost(0, np.arange(4), 0.1, 50.2)
    assert cost.bytes_down.tolist() == [size] * 4
    assert cost.bytes_up.tolist() == [0, size, 0, 0]  # client 2 has had no time for a step
    assert cost.flops.tolist() == [0.0] * 4
    opened = learner.cost(0, np.arange(4), 0.7, 60.0)
    assert opened.bytes_down.tolist() == [size] * 4
    assert opened.bytes_up.tolist() == [0] * 4


@pytest.mark.parametrize("case", ["slack", "fedex_sync", "fedex_async, aged"])
def test_a_lost_exchange_loses_nothing_but_time(problem: Any, case: str) -> None:
    algorithm, other = build(problem, case), build(problem, case)
    one, two = learner_of(algorithm), learner_of(other)
    for learner in (one, two):
        meet(learner, [3], 0.0, 1.0)
    one.begin(0, np.array([3]), 0.1, 5.0)
    one.drop(np.array([3]))
    for learner in (one, two):
        update = meet(learner, [3], 9.0, 10.0)
        assert update.gradient_steps.tolist() == [math.floor(8.0 * 2.6)]
        assert update.token_step_norm > 0
    assert torch.equal(algorithm.token, other.token)


@pytest.mark.parametrize("case", ["slack", "fedavg, tuned", "ifca", "local"])
def test_after_the_opening_released_clients_train_on_alone(problem: Any, case: str) -> None:
    keys = {"open_at": 0.5, **({"fine_tune": True} if case == "ifca" else {})}
    algorithm = build(problem, case, **keys)
    learner = learner_of(algorithm, rate=1.0, max_steps=6)
    meet(learner, [3], 0.0, 0.0, progress=0.1)
    meet(learner, [3], 100.0, 100.0, progress=0.2)
    token, held = algorithm.token.clone(), algorithm.models[3].clone()
    release = meet(learner, [3], 200.0, 200.0, progress=0.6)  # its result is not used any more: the token is frozen
    assert release.gradient_steps.tolist() == [0]
    assert release.train_loss is None
    sgd = build(problem, "local", between=False, local_steps=6)
    sgd.models[3] = held if case == "local" else learner.training.model(3, 200.0)
    sgd.participations[3] = 2
    for visit, now_s in enumerate((300.0, 400.0)):
        update = meet(learner, [3], now_s, now_s, progress=0.6 + visit / 10)
        sgd.update(Contact(np.array([3]), 1, 0.0))
        assert update.gradient_steps.tolist() == [6]
        assert (update.token_step_norm, update.age_s) == (0.0, None)
        assert torch.equal(algorithm.models[3], sgd.models[3])
    assert torch.equal(algorithm.token, token)


def test_error_rates_of_trials_are_reported_at_the_next_contact(problem: Any) -> None:
    """Clients try after their first and third contribution, on samples they have not trained on by then."""
    algorithm = build(problem, "neighbourhood", batch_size=50)
    learner = learner_of(algorithm, max_steps=10)
    size, now_s, noted, up, drawn = 4 * algorithm.model.parameters, 0.0, [], [], []
    draw, first, count = algorithm._rows, int(algorithm.data.first[4]), int(algorithm.data.train_count[4])
    algorithm._rows = lambda *given: drawn.append(draw(*given)) or drawn[-1]
    for _ in range(8):
        now_s += 1e4
        cost = learner.cost(0, np.array([3, 4]), 0.1, now_s)
        up.append((cost.bytes_up - size).tolist())
        assert cost.bytes_down.tolist() == (2 * np.full(2, size) if len(up) in (3, 5) else np.full(2, size)).tolist()
        drawn.clear()
        meet(learner, [3, 4], now_s, now_s)
        noted.append(algorithm._trials[3:5].copy())
        if drawn:  # what client 4 trained on since the contact before
            used = set((drawn[-1].numpy() - first).ravel())
            assert used == set(range(count if len(up) > 5 else count - math.ceil(0.15 * count)))
    assert up == [[-size, -size], [0, 0], [0, 0], [12, 12], [0, 0], [12, 12], [0, 0], [0, 0]]
    assert np.isnan(noted[2]).all()
    assert not np.isnan(noted[3]).any()
    assert np.array_equal(noted[3], noted[4])
    assert np.array_equal(noted[5], noted[7])


@pytest.mark.parametrize(
    "case",
    [
        *("slack", "apfl", "neighbourhood", "ifca", "local, ditto", "fedala", "fedrod", "fedrep", "feddbe"),
        *("fedex_sync", "fedex_async, aged"),
    ],
)
def test_a_checkpoint_keeps_what_is_under_way(problem: Any, tmp_path: Any, case: str) -> None:
    one, again = learner_of(build(problem, case)), learner_of(build(problem, case))
    made = overlapping(1)

    def play(learner: Learner, events: list[Any], first: int) -> None:
        for number, (what, asked, delivered) in enumerate(events, first):
            if what == "begin":
                learner.begin(0, asked, 0.1, 7.0 * number, int(asked[0]), asked)
            else:
                learner.drop(np.setdiff1d(asked, delivered))
                learner.update(0, Contact(delivered, 3, 0.1, int(asked[0]), asked, 7.0 * number))
            learner.refresh(7.0 * number)

    play(one, made[:21], 0)
    assert one.training._results
    save_state(tmp_path / "state.npz", one.state(), one.constants())
    load_state(tmp_path / "state.npz", again.state())
    for learner in (one, again):
        play(learner, made[21:], 21)
    other = everything(again.algorithm)
    for name, value in everything(one.algorithm).items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)
    np.testing.assert_array_equal(one.test.accuracy, again.test.accuracy)


class Moving:
    """Data whose labels change when clients move."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.data = algorithm.data

    def move(self, clients: np.ndarray, sites: np.ndarray) -> None:
        for client in clients.tolist():
            rows = slice(self.data.first[client], self.data.first[client + 1])
            self.data.labels[rows] = (self.data.labels[rows] + 1) % self.data.classes


@pytest.mark.parametrize("asks", [False, True])
def test_steps_before_a_move_use_the_data_from_before_it(problem: Any, plain: Any, asks: bool) -> None:
    algorithm, twin = build(problem, "fedavg"), build(problem, "fedavg", between=False, local_steps=40)
    learner = learner_of(algorithm, rate=1.0)
    learner.site_data = Moving(algorithm)
    rows = plain.Replay(twin).batches(np.array([2]))[0]
    x, eta = algorithm.token.numpy().copy(), algorithm.settings.step_size
    meet(learner, [2], 0.0, 0.0)
    for step in range(math.floor(30.0 * 1.2)):
        if step == math.floor(17.0 * 1.2):
            twin.data.labels[:] = (twin.data.labels + 1) % twin.data.classes
        features, labels = twin.data.features.numpy(), twin.data.labels.numpy()
        x = x - eta * plain.gradient(x, features[rows[step]], labels[rows[step]], twin.data.classes)
    for now_s in np.arange(0.5, 17.0, 2.3).tolist() if asks else ():
        learner.refresh(now_s)
    learner.move(np.array([2]), np.array([1]), 17.0)
    for now_s in np.arange(17.5, 30.0, 2.3).tolist() if asks else ():
        learner.refresh(now_s)
    meet(learner, [2], 30.0, 31.0)
    np.testing.assert_allclose(algorithm.models[2], x, rtol=1e-9)
