"""Properties that all algorithms share."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from making import HIDDEN, SHARED_BODY

from fedmule.learning.data.client_data import ClientData

KINDS = [
    *(
        "slack",
        "relay",
        "rwsadmm",
        "derived",
        "printed",
        "fedavg",
        "walkman",
        "local",
        "ditto",
        "apfl",
        "pfedme",
        "per_fedavg",
    ),
    *("neighbourhood", "ifca", "fedper", "fedrep", "fedbabu", "fedrod", "fedala", "feddbe"),
    *("fedex_sync", "fedex_async"),
]
TRY_OUT = ("neighbourhood", "ifca")  # clients receive several models to try, which costs more
PER_CLIENT = (
    *("models", "duals", "contributions", "participations", "last_step_sq", "seen", "released"),
    *("own", "alpha", "cluster", "_trials", "heads", "weights", "trained", "biases", "means"),
)


def prepared(small, kind, contacts):
    """An algorithm in the middle of a run; `printed` moves only from a start other than its own."""
    algorithm = small.build(kind, local_steps=2, open_at=0.5, eps=0.01, beta=5.0, kappa=0.1)
    if kind == "printed":
        algorithm.token = small.start.clone()
        algorithm.models = torch.from_numpy(np.random.default_rng(0).normal(size=algorithm.models.shape))
    for contact in contacts(7, 4, seed=3, progress=0.1):
        algorithm.update(contact)
    return algorithm


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("progress", [0.2, 0.9])
def test_an_update_changes_only_the_delivered_clients(problem, contacts, contact, state, kind, progress):
    algorithm = prepared(problem(kind=kind), kind, contacts)
    before = state(algorithm)
    algorithm.update(contact(1, 4, progress=progress))
    after = state(algorithm)
    others = [0, 2, 3, 5, 6]
    for name, was in before.items():
        if name.split(".")[-1] in PER_CLIENT:
            np.testing.assert_array_equal(after[name][others], was[others])
    assert (after["models"][[1, 4]] != before["models"][[1, 4]]).any(axis=1).all()
    assert (after["participations"] - before["participations"]).tolist() == [0, 1, 0, 0, 1, 0, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("progress", [0.2, 0.9])
def test_asking_for_the_cost_of_an_exchange_changes_nothing(problem, contacts, contact, state, kind, progress):
    algorithm = prepared(problem(kind=kind), kind, contacts)
    algorithm.update(contact(1, progress=progress))
    before = state(algorithm)
    exchanges = [algorithm.exchange(np.array([0, 1, 6]), progress) for _ in range(2)]
    after = state(algorithm)
    assert before.keys() == after.keys()
    for name, was in before.items():
        np.testing.assert_array_equal(after[name], was)
    np.testing.assert_array_equal(exchanges[0].bytes_down, exchanges[1].bytes_down)


@pytest.mark.parametrize("kind", KINDS)
def test_diagnostics_change_nothing(problem, contacts, state, kind):
    algorithm = prepared(problem(kind=kind), kind, contacts)
    before = state(algorithm)
    assert algorithm.constraint(0.2) == algorithm.constraint(0.2)
    after = state(algorithm)
    for name, was in before.items():
        np.testing.assert_array_equal(after[name], was)


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_bits(problem, contacts, state, kind):
    one, again = (problem(double=False, kind=kind).build(kind, local_steps=3) for _ in range(2))
    for contact in contacts(7, 30):
        assert one.update(contact) == again.update(contact)
    other = state(again)
    for name, value in state(one).items():
        np.testing.assert_array_equal(value, other[name])


@pytest.mark.parametrize("kind", KINDS)
def test_algorithms_do_not_share_state(problem, contact, kind):
    small = problem(kind=kind)
    start = small.start.clone()
    one, other = small.build(kind), small.build(kind)
    one.update(contact(0, 3))
    other.token.add_(1.0)
    assert torch.equal(small.start, start)
    assert torch.equal(other.models, torch.zeros_like(other.models) if kind == "printed" else start.repeat(7, 1))
    assert not other.participations.any()


@pytest.mark.parametrize("kind", KINDS)
def test_the_length_of_each_clients_last_step_is_recorded(problem, contacts, kind):
    algorithm = prepared(problem(kind=kind), kind, contacts)
    expected = algorithm.last_step_sq.numpy().copy()
    for contact in contacts(7, 20, seed=5):
        before = algorithm.models.numpy().copy()
        algorithm.update(contact)
        for client in contact.clients:
            expected[client] = ((algorithm.models.numpy()[client] - before[client]) ** 2).sum()
    np.testing.assert_allclose(algorithm.last_step_sq.numpy(), expected, rtol=1e-12)
    assert (expected > 0).all()


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in TRY_OUT])
def test_cost_of_an_exchange(problem, kind):
    small = problem(features=5, kind=kind)
    algorithm = small.build(kind, local_steps=4, batch_size=10)
    exchange = algorithm.exchange(np.array([0, 2, 5]), 0.0)
    size = 4 * (24 if kind in SHARED_BODY else 39 + 4 if kind == "feddbe" else 18)
    assert exchange.bytes_up.tolist() == [size] * 3  # float32
    assert exchange.bytes_down.tolist() == [size] * 3
    many = {
        **dict.fromkeys(("slack", "relay", "rwsadmm", "fedavg", "fedex_sync", "fedex_async"), 4),
        "local": 4,
        "ditto": 2 * 4,
        "apfl": 2 * 4,
        "pfedme": 5 * 4,
        "per_fedavg": 2 * 4 + 1,
        **dict.fromkeys(HIDDEN, 4),
        "fedrod": 2 * 4,
        "fedala": 4 + 2,
    }
    steps = many.get(kind, 1)
    assert algorithm.steps == steps
    one_step = small.model.flops(10)
    assert exchange.flops.shape == (3,)
    flops = exchange.flops - algorithm.preparation_flops(np.array([0, 2, 5]), 0.0)
    assert (flops >= steps * one_step).all()
    assert (flops <= steps * (one_step + 20 * small.model.parameters)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_all_clients_start_with_the_same_model(problem, kind):
    algorithm = problem(kind=kind).build(kind)
    assert torch.equal(algorithm.models, algorithm.token.repeat(7, 1))


class Counting:
    """A model that counts the samples it computes gradients over, per client."""

    def __init__(self, model):
        self.model, self.samples = model, 0

    def __getattr__(self, name):
        return getattr(self.model, name)

    def gradient(self, x, features, labels):
        self.samples += labels.shape[1]
        return self.model.gradient(x, features, labels)

    def represent(self, x, features):  # the way to the gradient of feddbe
        self.samples += features.shape[1]
        return self.model.represent(x, features)

    def descend(self, x, data, batches, eta, pull):
        self.samples += len(batches) * batches.shape[2]
        return self.model.descend(x, data, batches, eta, pull)


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("local", *TRY_OUT)])
@pytest.mark.parametrize("progress", [0.1, 0.9])
@pytest.mark.parametrize(
    "keys",
    [{}, {"inner_steps": 3, "adaptive": True, "fine_tune": True}],
)
def test_every_gradient_is_counted(problem, contact, kind, progress, keys):
    small = problem(kind=kind)
    model = Counting(small.model)
    if keys and kind == "per_fedavg":
        keys = {"variant": "hessian_free"}
    algorithm = replace(small, model=model).build(kind, local_steps=3, batch_size=7, **keys)
    update = algorithm.update(contact(1, 4, progress=progress))
    assert update.gradient_steps == model.samples / 7
    clients = np.array([1, 4])
    flops = algorithm.exchange(clients, progress).flops - algorithm.preparation_flops(clients, progress)
    per_gradient = flops / update.gradient_steps - small.model.flops(7)
    assert ((per_gradient >= 0) & (per_gradient <= 10 * small.model.parameters)).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keys", [{}, {"adaptive": True, "fine_tune": True}])
def test_the_order_of_clients_does_not_matter(problem, contacts, kind, keys):
    """Renumbering the clients gives the same models, up to rounding; samples are held out by number."""
    small, order = problem(kind=kind), np.random.default_rng(2).permutation(7)  # new client j is old client order[j]
    data = small.data
    rows = np.concatenate([np.arange(data.first[i], data.first[i + 1]) for i in order])
    first = np.concatenate([[0], np.cumsum(np.diff(data.first)[order])])
    shuffled = ClientData(data.features[rows], data.labels[rows], data.classes, first, data.train_count[order])

    def draw(ids, counts, k):
        client = (counts >= 0).all()  # otherwise the ids are not clients
        return small.draw(order[ids] if client else ids, counts, k)

    if keys and kind == "per_fedavg":
        keys = {"variant": "hessian_free"}
    keys = {"local_steps": 3, "beta": 5.0, "kappa": 0.1, "open_at": 0.6, "centre": 0.5, **keys}
    one, other = small.build(kind, **keys), replace(small, data=shuffled, draw=draw).build(kind, **keys)
    for contact in contacts(7, 15):
        one.update(contact)
        new = np.argsort(order)
        who = np.sort(new[contact.clients])
        other.update(replace(contact, clients=who, near=who, visited=int(new[contact.visited])))
    np.testing.assert_allclose(other.models.numpy(), one.models.numpy()[order], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(other.token.numpy(), one.token.numpy(), rtol=1e-9, atol=1e-11)
    if kind != "printed":
        assert one.models.std(dim=0).max() > 0.01
