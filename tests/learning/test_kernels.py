"""Compiled steps of a visit against the uncompiled ones."""

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from making import common_settings

from fedmule.learning import kernels
from fedmule.learning.algorithms.base import Algorithm, Task
from fedmule.learning.data.client_data import ClientData
from fedmule.learning.models.logistic import MLR
from fedmule.learning.models.mlp import MLP
from fedmule.learning.steps import Pull

MODELS = {"mlr": MLR(13, 4), "two classes": MLR(1, 2), "mlp": MLP(13, 3, (9, 6)), "wide": MLP(5, 12, (21,))}
PULLS = ["none", "no width", "one width", "open", "widths", "first"]


def no_draw(clients, visits, k):
    return np.zeros((len(clients), k))


def visit(model, clients, batch, dtype, seed=0, steps=5):
    """An algorithm with random data, models x [S,d] and batches [steps,S,B]."""
    g = torch.Generator().manual_seed(seed)
    features = torch.randn(50, model.widths[0], generator=g, dtype=dtype)
    labels = torch.randint(model.widths[-1], (50,), generator=g)
    data = ClientData(features, labels, model.widths[-1], np.array([0, 50]), np.array([40]))
    x = 0.5 * torch.randn(clients, model.parameters, generator=g, dtype=dtype)
    algorithm = Algorithm(Task(data, model, common_settings(step_size=0.2), x[0], no_draw))
    return algorithm, x, torch.randint(50, (steps, clients, batch), generator=g)


def pulled(kind, x):
    """A pull of each kind: towards one anchor for all, or one for each."""
    one, each = 0.3 * x[0].sin(), 0.3 * x.sin()
    widths = torch.full_like(one, 0.1)
    widths[::3] = math.inf
    return {
        "none": None,
        "no width": Pull(each, 0.3),
        "one width": Pull(one, 0.3, 0.2),
        "open": Pull(each, 0.3, math.inf),
        "widths": Pull(each, 0.3, widths),
        "first": Pull(one, 0.3, 0.05, first=True),
    }[kind]


def plain(algorithm, x, batches, pull):
    """The same steps by the generic path."""
    algorithm.model = type("Plain", (), {"gradient": staticmethod(algorithm.model.gradient)})
    return algorithm._descend(x, batches, pull)


@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize(("clients", "batch"), [(1, 20), (3, 7), (2, 1)])
@pytest.mark.parametrize("kind", PULLS)
@pytest.mark.parametrize("name", MODELS)
def test_compiled_steps_equal_the_generic_ones(name, kind, clients, batch, dtype, within):
    algorithm, x, batches = visit(MODELS[name], clients, batch, dtype)
    before, pull = x.clone(), pulled(kind, x)
    found, loss = algorithm.model.descend(x, algorithm.data, batches, 0.2, pull)
    assert torch.equal(x, before)
    assert found.dtype == dtype
    expected, expected_loss = plain(algorithm, x, batches, pull)
    assert (found - x).abs().max() > 0.01
    torch.testing.assert_close(found, expected, rtol=0, atol=within)
    assert loss == pytest.approx(float(expected_loss), abs=within)


@pytest.mark.parametrize("name", ["mlr", "mlp"])
def test_a_clients_bits_do_not_depend_on_the_others(name):
    algorithm, x, batches = visit(MODELS[name], 4, 20, torch.float32)
    pull = pulled("widths", x)
    together, _ = algorithm._descend(x, batches, pull)
    for i in range(4):
        own = slice(i, i + 1)
        alone, _ = algorithm._descend(x[own], batches[:, own], Pull(pull.anchor[own], pull.strength, pull.eps))
        assert torch.equal(alone, together[own])
    assert torch.equal(together, algorithm._descend(x, batches, pull)[0])


def test_a_step_inside_the_tube_is_plain_sgd_bit_for_bit():
    algorithm, x, batches = visit(MODELS["mlp"], 2, 20, torch.float32)
    wide = Pull(x, 0.3, 100.0)
    assert torch.equal(algorithm._descend(x, batches, wide)[0], algorithm._descend(x, batches)[0])


@pytest.mark.parametrize("name", ["mlr", "mlp"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_inf_and_nan_are_preserved(name, bad):
    """A run that diverges is detected by its loss; one client does not affect another."""
    algorithm, x, batches = visit(MODELS[name], 3, 20, torch.float32)
    finite, _ = algorithm._descend(x, batches, pulled("one width", x))
    pull = pulled("one width", x)
    x[1, -1] = bad
    found, loss = algorithm._descend(x, batches, pull)
    assert not math.isfinite(loss)
    assert not torch.isfinite(found[1]).all()
    assert torch.equal(found[[0, 2]], finite[[0, 2]])


def test_extreme_scores_stay_finite():
    algorithm, x, batches = visit(MODELS["mlr"], 2, 20, torch.float32)
    found, loss = algorithm._descend(1e4 * x, batches)
    assert torch.isfinite(found).all()
    assert math.isfinite(loss)


def test_other_models_use_the_generic_path():
    class Own(MLR):
        def gradient(self, x, features, labels):
            return torch.ones_like(x), x.new_ones(len(x))

    algorithm, x, batches = visit(Own(3, 2), 2, 5, torch.float64)
    assert algorithm.model.descend(x, algorithm.data, batches, 0.2, None) is None
    torch.testing.assert_close(algorithm._descend(x, batches)[0], x - 5 * 0.2)
    algorithm, x, batches = visit(MLR(3, 2), 2, 5, torch.float64)
    assert algorithm.model.descend(x, algorithm.data, batches, 0.2, None) is not None
    assert algorithm.model.descend(x.half(), algorithm.data, batches, 0.2, None) is None
    assert algorithm.model.descend(x.float(), algorithm.data, batches, 0.2, None) is None
    assert algorithm.model.descend(x.to("meta"), algorithm.data.to(torch.device("meta")), batches, 0.2, None) is None


def test_the_compiler_is_imported_only_to_compute():
    script = "import sys, fedmule.simulator.cli, fedmule.simulator.engine; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2])


def test_it_works_where_no_folder_is_writable(tmp_path):
    """Files occupy the paths of the package's and the user's cache folders."""
    kernels = Path(__file__).parents[2] / "learning" / "kernels.py"
    shutil.copy(kernels, tmp_path)
    (tmp_path / "__pycache__").touch()
    (tmp_path / "home").touch()
    script = "import kernels, numpy; x = numpy.ones(3); kernels.pull(x, 0 * x, 0.5, 0 * x); assert (x == 0.5).all()"
    folders = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"), str(tmp_path / "home"))
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"} | folders
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path, env=environment)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["__pycache__", "home", "kernels.py"]


KEYS = [{}, {"eps": 0.02, "beta": 0.7}, {"eps": (0.0, math.inf), "growing_mean": False}, {"token_pace": 0.3}]


@pytest.mark.parametrize("keys", [*KEYS, {"eps": 0.1, "project_on_arrival": False, "kappa_decay": 0.9}])
def test_a_run_of_slack_is_the_same_without_compiled_loops(problem, contacts, state, monkeypatch, keys):
    small = problem()
    small.model.layers = {"weights": small.model.parameters - 3, "bias": 3}
    ours, plain = (small.build("slack", **keys) for _ in range(2))
    for contact in contacts(7, 20, progress=0.0):
        update = ours.update(contact)
        with monkeypatch.context() as without:
            without.setattr("fedmule.learning.algorithms.rwsadmm.kernels_for", lambda *tensors: None)
            without.setattr("fedmule.learning.models.mlp.kernels_for", lambda *tensors: None)
            expected = plain.update(contact)
        assert update.train_loss == pytest.approx(expected.train_loss, abs=1e-12)
        assert update.token_step_norm == pytest.approx(expected.token_step_norm, abs=1e-12)
    kept, others = state(ours), state(plain)
    assert kept.keys() == others.keys()
    for name, value in kept.items():
        np.testing.assert_allclose(value, others[name], rtol=0, atol=1e-12, err_msg=name)


ONE_VISIT = """
import hashlib, sys
import torch
torch.set_num_threads(1)
from fedmule.simulator.engine import Simulation
from fedmule.simulator.scenario.load import load_scenario
simulation = Simulation(load_scenario("smoke", {"stop.visits": 2, "learning.model": "mlp"}))
simulation.run()
algorithm = simulation.learner.algorithm
sys.stdout.write(hashlib.sha256(algorithm.models.numpy().tobytes() + algorithm.token.numpy().tobytes()).hexdigest())
"""


def test_the_run_that_compiles_has_the_same_bits_as_later_runs(tmp_path):
    """Compiled again, and loaded from the cache of the first run."""
    own = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    found = [
        subprocess.run([sys.executable, "-c", ONE_VISIT], env=own, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert len(list(tmp_path.rglob("*.nbc"))) > 3
    assert found[0].stdout == found[1].stdout != ""


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("samples", [0, 1, 2, 7, 50])
def test_scores_are_those_of_the_layers(name, dtype, samples):
    model = MODELS[name]
    algorithm, x, _ = visit(model, 1, 1, dtype)
    features = algorithm.data.features[:samples]
    expected = features
    layers = model._layers(x)
    for depth, (weights, bias) in enumerate(layers):
        expected = expected @ weights[0].T + bias[0]
        expected = expected if depth == len(layers) - 1 else expected.clamp(min=0)
    found = model.scores(x[0], features)
    assert found.dtype is dtype
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 if dtype is torch.float32 else 1e-13)


def test_scores_of_a_model_under_differentiation_can_be_differentiated():
    model = MODELS["mlp"]
    algorithm, x, _ = visit(model, 1, 1, torch.float64)
    leaf = x[0].clone().requires_grad_()
    features, labels = algorithm.data.features, algorithm.data.labels
    torch.nn.functional.cross_entropy(model.scores(leaf, features), labels).backward()
    expected, _ = model.gradient(x[:1], features[None], labels[None])
    torch.testing.assert_close(leaf.grad, expected[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_errors_and_losses_are_those_of_torch(dtype):
    g = torch.Generator().manual_seed(1)
    scores = 30 * torch.randn(200, 5, generator=g, dtype=dtype)
    scores[:20] = 0.0  # a tie is the first class
    labels = torch.randint(5, (200,), generator=g)
    wrong, losses = kernels.judge(scores.numpy(), labels.numpy())
    expected = torch.nn.functional.cross_entropy(scores.double(), labels, reduction="none")
    np.testing.assert_allclose(losses, expected.numpy(), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(wrong, (scores.argmax(dim=1) != labels).numpy())
    assert wrong[:20].tolist() == (labels[:20] != 0).tolist()


@pytest.mark.parametrize("worst", [math.nan, math.inf])
def test_a_loss_of_scores_that_are_not_finite_is_not_finite(worst):
    for at in range(3):
        scores = np.zeros((1, 3), np.float32)
        scores[0, at] = worst
        assert not np.isfinite(kernels.judge(scores, np.array([1]))[1]).any()


def test_rows_of_batches_are_rounded_down_numbers():
    numbers = np.random.default_rng(0).random((3, 24))
    numbers[0, :2] = 0.0, np.nextafter(1.0, 0.0)
    pool, first = np.array([5, 1, 1_000_000]), np.array([0, 7, 100])
    found = kernels.rows_of(numbers, pool, first, 2, 4)
    expected = (numbers * pool[:, None]).astype(np.int64) + first[:, None]
    np.testing.assert_array_equal(found, expected.reshape(3, 6, 4).swapaxes(0, 1)[2:])
    assert kernels.rows_of(numbers, pool, first, 0, 4)[0, 0, :2].tolist() == [0, 4]
