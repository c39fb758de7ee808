"""Models against autograd and against each other."""

import numpy as np
import pytest
import torch
from making import make
from torch.utils.flop_counter import FlopCounterMode

from fedmule.learning.algorithms.base import Contact
from fedmule.learning.data.client_data import ClientData
from fedmule.learning.errors import DataError
from fedmule.learning.models.mlp import MLP
from fedmule.learning.models.module import ModuleModel, cnn
from fedmule.learning.steps import Pull, noise_seeds
from fedmule.simulator.streams import Streams


def batch(s, b, f, classes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(s, b, f, generator=generator), torch.randint(0, classes, (s, b), generator=generator)


def plain_mlp(model, x, features):
    """The same network written with matrices [d] by hand."""
    at = 0
    for depth, (i, o) in enumerate(zip(model.widths, model.widths[1:], strict=False)):
        weights, bias = x[at : at + i * o].reshape(o, i), x[at + i * o : at + i * o + o]
        at += (i + 1) * o
        features = features @ weights.T + bias
        if depth < len(model.widths) - 2:
            features = torch.relu(features)
    assert at == len(x)
    return features


@pytest.mark.parametrize("hidden", [(100, 100), (7,), (5, 6, 4)])
@pytest.mark.parametrize("s", [1, 4])
def test_mlp_gradient_is_that_of_autograd(hidden, s):
    model = MLP(9, 3, hidden)
    x = torch.stack([model.start(np.random.default_rng(i)) for i in range(s)])
    features, labels = batch(s, 8, 9, 3)
    gradient, loss = model.gradient(x, features, labels)
    for i in range(s):
        leaf = x[i].clone().requires_grad_()
        expected = torch.nn.functional.cross_entropy(plain_mlp(model, leaf, features[i]), labels[i])
        expected.backward()
        assert loss[i].item() == pytest.approx(expected.item(), rel=1e-5)
        torch.testing.assert_close(gradient[i], leaf.grad, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(model.scores(x[i], features[i]), plain_mlp(model, x[i], features[i]))


def test_the_mlp_of_the_paper_has_the_published_size():
    assert MLP(784, 10, (100, 100)).parameters == 784 * 100 + 100 + 100 * 100 + 100 + 100 * 10 + 10


def test_mlp_flops_match_the_count_of_torch():
    model = MLP(40, 10, (100, 100))
    leaf = model.start(np.random.default_rng(0)).requires_grad_()
    features, labels = batch(1, 20, 40, 10)
    with FlopCounterMode(display=False) as counter:
        loss = torch.nn.functional.cross_entropy(plain_mlp(model, leaf, features[0]), labels[0])
        loss.backward()
    assert model.flops(20) == counter.get_total_flops()


def test_a_wrapped_module_gives_its_own_scores_and_gradients():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
    model = ModuleModel(module, (6,))
    x = torch.stack([model.start(np.random.default_rng(0)) + 0.1 * i for i in range(3)])
    features, labels = batch(3, 7, 6, 3)
    gradient, loss = model.gradient(x, features, labels)
    for i in range(3):
        torch.nn.utils.vector_to_parameters(x[i], module.parameters())
        module.zero_grad()
        expected = torch.nn.functional.cross_entropy(module(features[i]), labels[i])
        expected.backward()
        torch.testing.assert_close(gradient[i], torch.cat([p.grad.reshape(-1) for p in module.parameters()]))
        assert loss[i].item() == pytest.approx(expected.item())
        torch.testing.assert_close(model.scores(x[i], features[i]), module(features[i]).detach())


def test_the_mlp_and_the_same_module_agree():
    fast = MLP(12, 4, (8, 8))
    layers = [torch.nn.Linear(12, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4)]
    slow = ModuleModel(torch.nn.Sequential(*layers), (12,))
    x = fast.start(np.random.default_rng(3))
    features, _ = batch(1, 10, 12, 4)
    torch.testing.assert_close(slow.scores(x, features[0]), fast.scores(x, features[0]))
    assert slow.parameters == fast.parameters
    assert slow.flops(20) == fast.flops(20)


def test_modules_with_buffers_are_refused_by_name():
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    with pytest.raises(DataError, match=r"1\.running_mean"):
        ModuleModel(module, (3,))


def test_cnn_shapes_and_size():
    model = ModuleModel(cnn(784, 10, (1, 28, 28)), (1, 28, 28))
    assert model.parameters == (25 * 32 + 32) + (32 * 25 * 64 + 64) + (64 * 16 * 512 + 512) + 5130
    assert model.scores(model.start(np.random.default_rng(0)), torch.zeros(3, 784)).shape == (3, 10)
    assert ModuleModel(cnn(3072, 10, (3, 32, 32)), (3, 32, 32)).scores(
        ModuleModel(cnn(3072, 10, (3, 32, 32)), (3, 32, 32)).start(np.random.default_rng(0)), torch.zeros(2, 3072)
    ).shape == (2, 10)
    with pytest.raises(DataError, match="needs images"):
        cnn(60, 10, ())
    with pytest.raises(DataError, match="too small"):
        cnn(100, 10, (1, 10, 10))


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)])
def test_cnn_size_and_flops_match_the_count_of_torch(shape):
    """By torch over a real batch, and by hand: forward, to the weights, and back to all inputs but the pixels."""
    module = cnn(int(np.prod(shape)), 10, shape)
    model = ModuleModel(module, shape)
    assert model.parameters == sum(parameter.numel() for parameter in module.parameters())
    features, labels = batch(1, 5, int(np.prod(shape)), 10)
    with FlopCounterMode(display=False) as counter:
        torch.nn.functional.cross_entropy(module(features[0].view(5, *shape)), labels[0]).backward()
    assert model.flops(5) == counter.get_total_flops()
    channels, side = shape[0], shape[1] - 4
    inner = side // 2 - 4
    first, *others = (
        side**2 * 32 * 25 * channels,
        inner**2 * 64 * 25 * 32,
        64 * (inner // 2) ** 2 * 512,
        512 * 10,
    )
    assert model.flops(5) == 5 * (4 * first + 6 * sum(others))


def small_images(clients=3, samples=8):
    generator = torch.Generator().manual_seed(0)
    features = torch.rand(clients * samples, 256, generator=generator)
    labels = torch.randint(0, 3, (clients * samples,), generator=generator)
    first = samples * np.arange(clients + 1)
    return ClientData(features, labels, 3, first, np.full(clients, samples - 2), shape=(1, 16, 16))


def test_dropout_follows_the_clients_own_stream_and_is_off_in_evaluation():
    data = small_images()
    torch.manual_seed(7)
    model = ModuleModel(cnn(256, 3, (1, 16, 16)), (1, 16, 16))
    assert model.random
    start = model.start(np.random.default_rng(0))
    scores = [model.scores(start, data.features) for _ in range(2)]
    assert torch.equal(*scores)

    def after(contacts):
        algorithm = make("fedavg", data, model, start, Streams(1).draw("batches"), local_steps=2, batch_size=4)
        for clients in contacts:
            algorithm.token = start.clone()  # so only the client's own steps matter
            algorithm.update(Contact(np.array(clients), 3, 0.0))
        return algorithm.models[1]

    alone = after([[1]])
    torch.manual_seed(123)  # whatever else draws from torch's generator
    assert torch.equal(after([[0, 1, 2]]), alone)
    assert torch.equal(after([[0], [2], [1]]), alone)
    assert not torch.equal(after([[1], [1]]), alone)
    rows = torch.tensor([[1, 2, 3], [1, 2, 4], [3, 2, 1]])
    assert len(set(noise_seeds(rows))) == 3


def own_steps(model, data, x, batches, pull):
    """The same steps by `gradient`."""
    for rows in batches:
        seeds = noise_seeds(rows) if model.random else None
        g, _ = model.gradient(x, data.features[rows], data.labels[rows], seeds)
        x = pull(x) - 0.2 * g if pull.first else pull(x - 0.2 * g)
    return x


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("each", [False, True])
def test_all_steps_of_a_visit_equal_single_steps(first, each):
    data = small_images()
    torch.manual_seed(7)
    model = ModuleModel(cnn(256, 3, (1, 16, 16)), (1, 16, 16))
    x = torch.stack([model.start(np.random.default_rng(0)) * (1 + 0.1 * i) for i in range(2)])
    before, batches = x.clone(), torch.randint(18, (3, 2, 5), generator=torch.Generator().manual_seed(1))
    pull = Pull(0.9 * x if each else 0.9 * x[0], 0.3, 0.001, first)
    found, loss = model.descend(x, data, batches, 0.2, pull)
    assert torch.equal(x, before)
    assert 0.5 < float(loss) < 2
    torch.testing.assert_close(found, own_steps(model, data, x, batches, pull), rtol=0, atol=1e-6)


class Viewing(torch.nn.Module):
    """A module that assumes the default memory format."""

    def __init__(self):
        super().__init__()
        self.convolution, self.head = torch.nn.Conv2d(2, 3, 3), torch.nn.Linear(3 * 36, 3)

    def forward(self, x):
        return self.head(self.convolution(x).view(len(x), -1))


@pytest.mark.parametrize("make", [Viewing, lambda: torch.nn.Sequential(torch.nn.Conv2d(2, 3, 7), torch.nn.Flatten())])
def test_images_give_the_scores_and_gradients_of_the_module(make):
    torch.manual_seed(3)
    module = make()
    model = ModuleModel(module, (2, 8, 8))
    features, labels = batch(1, 6, 128, 3)
    scores = module(features.view(6, 2, 8, 8))
    torch.testing.assert_close(model.scores(model.start(np.random.default_rng(0)), features[0]), scores.detach())
    gradient, loss = model.gradient(model.start(np.random.default_rng(0)).unsqueeze(0), features, labels)
    expected = torch.nn.functional.cross_entropy(scores, labels[0])
    expected.backward()
    assert loss.item() == pytest.approx(expected.item())
    torch.testing.assert_close(gradient[0], torch.cat([p.grad.reshape(-1) for p in module.parameters()]))
