"""Priors of labels: gradients against autograd, evaluation by brute force, training against a shift of the bias.

An MLR has a bias for each label, so a client's prior equals a shift of its bias: an independent way to
compute everything.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from making import common_settings

from fedmule.learning.algorithms.base import Algorithm, Task
from fedmule.learning.alone import Alone
from fedmule.learning.data.client_data import ClientData
from fedmule.learning.data.sites import Shift, SiteData
from fedmule.learning.errors import DataError
from fedmule.learning.evaluate import Evaluator
from fedmule.learning.memory import size_of
from fedmule.learning.models.logistic import MLR
from fedmule.learning.models.mlp import MLP
from fedmule.learning.models.module import ModuleModel, cnn
from fedmule.learning.models.protocol import takes_prior
from fedmule.learning.models.trial import try_prior
from fedmule.learning.steps import Pull, gradient
from fedmule.simulator.streams import Streams

EXTRA = 0.5


def expected_log(data, client, extra=EXTRA):
    """The prior of a client, counted label by label."""
    first = int(data.first[client])
    labels = data.labels[first : first + int(data.train_count[client])].tolist()
    counts = [labels.count(label) + extra for label in range(data.classes)]
    return np.log(np.array(counts) / sum(counts))


def shifted(x, data, client):
    """A client's MLR x [d] with its prior as part of the bias."""
    return np.append(x[: -data.classes], x[-data.classes :] + expected_log(data, client))


@pytest.fixture
def skewed(problem):
    """A small problem with a prior."""
    made = problem()
    return replace(made, data=made.data.with_prior(EXTRA))


# --- the numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extra", [0.5, 3.0, 1e-6])
def test_frequencies_are_those_of_the_clients_training_labels(problem, extra):
    data = problem().data
    log = data.with_prior(extra).prior.log
    assert log.dtype == data.features.dtype
    for client in range(data.clients):
        np.testing.assert_allclose(log[client], expected_log(data, client, extra), rtol=1e-12)
    assert data.prior is None
    assert data.with_prior(extra).with_prior(None).prior is None


def test_labels_that_a_client_or_nobody_has_get_a_finite_prior():
    labels = torch.tensor([2, 2, 2, 0, 0, 1, 1, 1])  # of 5; the fourth and the last are for testing
    data = ClientData(torch.zeros(8, 1), labels, 5, np.array([0, 4, 8]), np.array([3, 3])).with_prior(EXTRA)
    expected = np.log(np.array([[0.5, 0.5, 3.5, 0.5, 0.5], [1.5, 2.5, 0.5, 0.5, 0.5]]) / 5.5)
    np.testing.assert_allclose(data.prior.log, expected, rtol=1e-6)
    assert size_of(data) > size_of(data.with_prior(None))
    for extreme in (5e-324, 1.7e308):
        assert torch.isfinite(data.with_prior(extreme).prior.log).all()


@pytest.mark.parametrize("kind", ["rotated", "permuted"])
def test_the_prior_follows_a_client_to_another_site(kind):
    generator = np.random.default_rng(0)
    features = torch.from_numpy(generator.random((60, 16)).astype(np.float32))
    labels = torch.from_numpy(generator.integers(0, 3, 60))
    counts, site = np.full(6, 7), np.arange(6) % 3
    data = ClientData(features, labels, 6, 10 * np.arange(7), counts, shape=(1, 4, 4), site=site).with_prior(EXTRA)
    placed = SiteData(data, Shift(kind, 3, data, generator), site.copy(), np.array([1, 4]))
    held = data.prior.log
    first = held.clone()
    for client in range(6):
        np.testing.assert_allclose(held[client], expected_log(data, client), rtol=1e-6)
    placed.move(np.array([1, 4]), np.array([2, 0]))
    for client in range(6):
        np.testing.assert_allclose(held[client], expected_log(data, client), rtol=1e-6)
    assert data.prior.log is held
    assert ((held != first).any(dim=1).numpy() == (np.isin(np.arange(6), [1, 4]) & (kind == "permuted"))).all()
    placed.move(np.array([4, 1]), np.array([1, 1]))
    assert torch.equal(held, first)


# --- gradients and steps ----------------------------------------------------------------------------------------


def networks():
    torch.manual_seed(5)
    layers = torch.nn.Linear(256, 4), torch.nn.Dropout(0.3), torch.nn.ReLU(), torch.nn.Linear(4, 3, bias=False)
    return {
        "mlr": MLR(256, 3),
        "mlp": MLP(256, 3, (9, 6)),
        "module": ModuleModel(torch.nn.Sequential(*layers), (256,)),
        "cnn": ModuleModel(cnn(256, 3, (1, 16, 16)), (1, 16, 16)),
    }


def images():
    generator = torch.Generator().manual_seed(0)
    features, labels = torch.rand(30, 256, generator=generator), torch.randint(0, 2, (30,), generator=generator)
    data = ClientData(features, labels, 3, 10 * np.arange(4), np.full(3, 8), shape=(1, 16, 16))
    return data.with_prior(EXTRA)


@pytest.mark.parametrize("name", ["mlr", "mlp", "module", "cnn"])
def test_gradients_are_those_of_autograd(name, monkeypatch):
    """Without dropout, so that the scores of evaluation are those of training."""
    monkeypatch.setattr(torch.nn.Dropout, "forward", lambda self, x: x)
    model, data = networks()[name], images()
    rows = torch.tensor([[1, 5, 2], [13, 11, 10]])  # of clients 0 and 1
    x = torch.stack([model.start(np.random.default_rng(i)) for i in range(2)])
    found, loss = gradient(model, data, x, rows)
    for i in range(2):
        leaf = x[i].clone().requires_grad_()
        if isinstance(model, ModuleModel):
            parts = model._parts(leaf)
            scores = torch.func.functional_call(model.module, parts, (data.features[rows[i]].view(3, *model._shape),))
        else:
            scores = model.scores(leaf, data.features[rows[i]])
        prior = torch.from_numpy(expected_log(data, i)).float()
        expected = torch.nn.functional.cross_entropy(scores + prior, data.labels[rows[i]])
        expected.backward()
        assert loss[i].item() == pytest.approx(expected.item(), rel=1e-5)
        torch.testing.assert_close(found[i], leaf.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["module", "cnn"])
def test_all_steps_of_a_module_equal_single_steps(name):
    """With the same dropout."""
    model, data = networks()[name], images()
    batches = torch.tensor([[[1, 5, 2], [13, 11, 10]], [[0, 7, 2], [12, 11, 17]]])
    x = torch.stack([model.start(np.random.default_rng(0))] * 2)
    found, _ = model.descend(x, data, batches, 0.2, None, prior=data.prior.log[:2])
    without, _ = model.descend(x, data, batches, 0.2, None)
    for rows in batches:
        x = x - 0.2 * gradient(model, data, x, rows)[0]
    torch.testing.assert_close(found, x, rtol=0, atol=1e-6)
    assert (found - without).abs().max() > 1e-4


@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("first", [None, False, True])
@pytest.mark.parametrize("model", [MLR(13, 4), MLR(1, 2), MLP(13, 3, (9, 6)), MLP(5, 12, (21,))])
def test_compiled_steps_equal_the_generic_ones(model, first, dtype, within):
    g, classes = torch.Generator().manual_seed(0), model.widths[-1]
    features = torch.randn(60, model.widths[0], generator=g, dtype=dtype)
    labels = torch.randint(classes, (60,), generator=g) // 2
    data = ClientData(features, labels, classes, 20 * np.arange(4), np.full(3, 15)).with_prior(EXTRA)
    x = 0.5 * torch.randn(3, model.parameters, generator=g, dtype=dtype)
    batches = 20 * torch.arange(3)[None, :, None] + torch.randint(15, (5, 3, 7), generator=g)
    pull = None if first is None else Pull(0.3 * x.sin(), 0.3, 0.05, first)
    compiled = Algorithm(Task(data, model, common_settings(step_size=0.2), x[0], None))
    generic = Algorithm(Task(data, model, common_settings(step_size=0.2), x[0], None))
    generic.model = type("Plain", (), {"gradient": staticmethod(model.gradient)})
    found, loss = compiled._descend(x, batches, pull)
    expected, expected_loss = generic._descend(x, batches, pull)
    torch.testing.assert_close(found, expected, rtol=0, atol=within)
    assert loss == pytest.approx(float(expected_loss), abs=within)
    assert isinstance(loss, float)  # by the compiled loops
    compiled.data = data.with_prior(None)
    without = compiled._descend(x, batches, pull)[0]
    assert (found - without).abs().max() > 1e-3
    zeros, _ = model.descend(x, data, batches, 0.2, pull, prior=torch.zeros_like(data.prior.log))
    assert torch.equal(zeros, without)


# --- algorithms and their evaluation ------------------------------------------------------------------------------

KINDS = [
    "slack",
    "relay",
    "derived",
    "fedavg",
    "ditto",
    "apfl",
    "pfedme",
    "per_fedavg",
    "neighbourhood",
    "ifca",
    "local",
]


@pytest.mark.parametrize("kind", KINDS)
def test_accuracies_and_losses_are_those_of_scores_with_the_prior(skewed, plain, contacts, kind):
    skewed = replace(skewed, data=replace(skewed.data, site=np.arange(7) % 2))
    algorithm, data = skewed.build(kind, local_steps=3, clusters=2), skewed.data
    evaluator = Evaluator(algorithm)
    for step, contact in enumerate(contacts(7, 30)):
        algorithm.update(contact)
        evaluator.changed(contact.clients)
        if step % 10 == 9:
            overview = evaluator.overview(contact.progress)
            tokens = algorithm.tokens(np.arange(7)).expand(7, -1).numpy()
            own = [plain.test_accuracy(shifted(x, data, i), data, i) for i, x in enumerate(algorithm.models.numpy())]
            common = [plain.test_accuracy(shifted(x, data, i), data, i) for i, x in enumerate(tokens)]
            np.testing.assert_allclose(evaluator.test.accuracy, own)
            np.testing.assert_allclose(overview.token_test_acc, common)
            if overview.constraint is not None:
                models = algorithm.models.numpy()
                losses = [plain.train_loss(shifted(x, data, i), data, i) for i, x in enumerate(models)]
                assert overview.lagrangian == pytest.approx(np.mean(losses) + overview.constraint.penalty, rel=1e-9)
                assert overview.lyapunov is None or evaluator.smoothness == pytest.approx(max(plain.smoothness(data)))


def test_validation_uses_the_prior(skewed, plain):
    counts = np.minimum(skewed.data.test_count - 1, 2)
    data = replace(skewed.data, validation_count=counts)
    evaluator = Evaluator(replace(skewed, data=data).build("fedavg"))
    for client in range(7):
        first = int(data.validation_first[client])
        rows = slice(first, first + int(counts[client]))
        x = shifted(skewed.start.numpy(), data, client)
        right = plain.scores(x, data.features[rows].numpy(), 3).argmax(axis=1) == data.labels[rows].numpy()
        assert evaluator.validation.correct[client] == right.sum()


@pytest.mark.parametrize("kind", ["local", "fedavg"])
def test_training_with_a_prior_is_training_with_a_shifted_bias(problem, contact, kind):
    without = problem()
    with_prior = replace(without, data=without.data.with_prior(EXTRA))
    for client in (0, 3):
        start = torch.from_numpy(shifted(without.start.numpy(), without.data, client))
        ours, other = with_prior.build(kind), replace(without, start=start).build(kind)
        update, expected = ours.update(contact(client)), other.update(contact(client))
        assert update.train_loss == pytest.approx(expected.train_loss, rel=1e-9)
        found = shifted(ours.models[client].numpy(), without.data, client)
        np.testing.assert_allclose(found, other.models[client].numpy(), rtol=0, atol=1e-9)


def test_training_alone_uses_the_prior_in_its_trials_steps_and_accuracy(problem):
    without = problem()
    draw, settings = Streams(3).draw("alone"), common_settings(batch_size=5, step_size=0.3)

    def trained(data, start, clients):
        task = Task(data, without.model, settings, start, draw)
        found = Alone(task, np.array(clients), 64, np.full(7, 1e3), 1.0)
        return found, found.accuracy(1e6)

    ours, accuracy = trained(without.data.with_prior(EXTRA), without.start, range(7))
    for client in range(7):
        start = torch.from_numpy(shifted(without.start.numpy(), without.data, client))
        other, expected = trained(without.data, start, [client])
        found = shifted(ours.models[client].numpy(), without.data, client)
        np.testing.assert_allclose(found, other.models[0].numpy(), rtol=0, atol=1e-9)
        assert accuracy[client] == expected[client]
        assert (ours.steps[client], ours.step_size[client]) == (other.steps[0], other.step_size[0])
    assert np.nanmean(accuracy) != np.nanmean(trained(without.data, without.start, range(7))[1])


def test_clusters_are_chosen_by_the_loss_with_the_prior(skewed, plain):
    algorithm, data = skewed.build("ifca", clusters=3), skewed.data
    generator = np.random.default_rng(2)
    algorithm.centres = algorithm.centres + torch.from_numpy(0.3 * generator.normal(size=algorithm.centres.shape))
    chosen = algorithm._choice(np.arange(7), [{"centres": algorithm.centres}] * 7)
    losses = [[plain.train_loss(shifted(x, data, i), data, i) for x in algorithm.centres.numpy()] for i in range(7)]
    assert chosen.tolist() == np.argmin(losses, axis=1).tolist()


def test_mixtures_of_neighbourhoods_are_tried_with_the_prior(skewed, plain):
    algorithm, data = skewed.build("neighbourhood"), skewed.data
    near, y = torch.from_numpy(np.random.default_rng(4).normal(size=(2, len(skewed.start))))
    found = algorithm._errors(np.arange(7), [{"near_without": near, "token_without": y}] * 7)
    for client in range(7):
        end = int(data.first[client] + data.train_count[client])
        rows = slice(end - int(algorithm._held_out(np.array([client]))[0]), end)
        for k, rho in enumerate((0.0, 0.5, 1.0)):
            x = shifted((y + rho * (near - y)).numpy(), data, client)
            wrong = plain.scores(x, data.features[rows].numpy(), 3).argmax(axis=1) != data.labels[rows].numpy()
            assert found[client, k] == pytest.approx(wrong.mean(), abs=1e-6)


# --- models of the user's own ---------------------------------------------------------------------------------------


class Untold(MLR):
    """A model whose gradient has no argument `prior`, nor have its steps."""

    def gradient(self, x, features, labels):
        return super().gradient(x, features, labels)

    def descend(self, x, data, batches, eta, pull):
        return x + 100, 0.0


class Penalised(Untold):
    """Its loss is not the cross-entropy of its scores."""

    def gradient(self, x, features, labels):
        g, loss = super().gradient(x, features, labels)
        return g + x, loss + x.square().sum(dim=1) / 2


class Numbers(Untold):
    """Scores that autograd cannot follow."""

    def scores(self, x, features):
        return torch.from_numpy(super().scores(x, features).detach().numpy())


class Inside(MLR):
    """A gradient that fails where a prior is given."""

    def gradient(self, x, features, labels, prior=None):
        return super().gradient(x, features, labels, None if prior is None else prior[:, :1, None, None])


class Biased(MLR):
    """A gradient that is another one with a prior of zeros."""

    def gradient(self, x, features, labels, prior=None):
        g, loss = super().gradient(x, features, labels)
        return (g if prior is None else g + 1), loss


def test_a_model_whose_gradient_has_no_prior_is_trained_through_its_scores(problem, skewed, contacts):
    own = replace(skewed, model=Untold(5, 3))
    assert takes_prior(skewed.model.gradient)
    assert not takes_prior(own.model.gradient)
    try_prior(own.model, problem(double=False).data.with_prior(EXTRA))
    ours, expected = own.build("slack", local_steps=3), skewed.build("slack", local_steps=3)
    for contact in contacts(7, 10):
        loss = ours.update(contact).train_loss
        assert loss == pytest.approx(expected.update(contact).train_loss, rel=1e-9)
    torch.testing.assert_close(ours.models, expected.models, rtol=0, atol=1e-9)
    plain = replace(skewed, data=skewed.data.with_prior(None), model=own.model).build("fedavg")
    assert (plain.update(contact) and plain.models.max()) > 50  # its own steps, where there is no prior


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            Penalised,
            "its gradient is not that of the cross-entropy of its scores; give its gradient an argument `prior`",
        ),
        (Numbers, "does not require grad"),
        (Inside, "cannot be trained with a prior: "),
        (Biased, "a prior of zeros changes its gradient"),
    ],
)
def test_models_that_cannot_take_a_prior_are_refused(problem, model, message):
    with pytest.raises(DataError, match=message):
        try_prior(model(5, 3), problem(double=False).data.with_prior(EXTRA))
