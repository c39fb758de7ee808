"""Runs on a pretended GPU give the same bits as on the CPU, and never mix devices."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from making import HIDDEN, SHARED_BODY
from pretend_device import PRETEND, Pretend, There

from fedmule.learning.algorithms.base import Contact
from fedmule.learning.evaluate import Evaluator
from fedmule.learning.models.mlp import MLP
from fedmule.learning.models.module import ModuleModel
from fedmule.simulator.engine import Simulation
from fedmule.simulator.runs.folder import NoLog

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
    *("neighbourhood", "ifca", "squad_oracle", "fedper", "fedrep", "fedbabu", "fedrod", "fedala", "feddbe"),
    *("fedex_sync", "fedex_async", "pooled"),
]
AVERAGED = ("fedavg", "fedbabu")  # which can average late tokens
VISITS = [([0, 3], 0.0), ([3], 0.1), ([0, 1, 2], 0.9), ([0, 3], 0.95)]


@pytest.fixture(autouse=True)
def _no_compiled_loops(monkeypatch):
    """Compiled loops run on a CPU only; here both devices run the same tensor operations."""
    for module in ("steps", "models.mlp", "algorithms.tube", "algorithms.rwsadmm", "algorithms.relay"):
        monkeypatch.setattr(f"fedmule.learning.{module}.kernels_for", lambda *tensors: None)


def network(kind, small):
    torch.manual_seed(0)
    layers = torch.nn.Linear(5, 4), torch.nn.Dropout(0.3), torch.nn.ReLU(), torch.nn.Linear(4, 3)
    return {"mlr": small.model, "mlp": MLP(5, 3, (4, 4)), "module": ModuleModel(torch.nn.Sequential(*layers), (5,))}[
        kind
    ]


def build(small, kind):
    keys = {"fine_tune": True, "adaptive": True, "eps": 0.01, "token_mean": 0.9 if kind in AVERAGED else 0.0}
    if kind == "per_fedavg":
        keys = {"variant": "hessian_free"}
    return small.build(kind, local_steps=2, **keys)


def assert_same(ours, theirs):
    """Compare exactly, except M_β, whose norm another algorithm computes there."""
    for a, b in zip(ours, theirs, strict=True):
        one, other = asdict(a), asdict(b)
        assert (one.pop("lyapunov", 0) or 0) == pytest.approx(other.pop("lyapunov", 0) or 0, rel=1e-4)
        assert np.array_equal(one.pop("token_test_acc", 0), other.pop("token_test_acc", 0))
        assert one == other


@pytest.mark.parametrize(
    ("kind", "model", "prior"),
    [
        *((kind, model, None) for kind in KINDS for model in ("mlr", "mlp") if model == "mlp" or kind not in HIDDEN),
        *((kind, "module", None) for kind in ("slack", "apfl", *SHARED_BODY, "fedrod", "fedala")),
        *((kind, "module", 0.5) for kind in ("slack", "apfl")),
        *((kind, "mlp", 0.5) for kind in ("slack", "per_fedavg", "neighbourhood", "ifca", *HIDDEN, "fedrod", "fedala")),
    ],
)
def test_updates_and_evaluation_give_the_same_bits_on_both_devices(problem, kind, model, prior):
    small = problem(double=False)
    model = network(model, small)
    data = replace(small.data, site=np.arange(7) % 2).with_prior(prior)
    here = replace(small, model=model, start=model.start(np.random.default_rng(0)), data=data)

    def run(one):
        algorithm = build(one, kind)
        evaluator, seen = Evaluator(algorithm), []
        for clients, progress in VISITS:
            seen.append(algorithm.update(Contact(np.array(clients), 4, progress, clients[0], np.arange(4))))
            evaluator.changed(np.array(clients))
            evaluator.refresh()
            seen.append(evaluator.overview(progress))
        return algorithm, seen

    ours, expected = run(here)
    with Pretend():
        theirs, seen = run(replace(here, data=here.data.to(PRETEND), start=here.start.to(PRETEND)))
        assert_same(expected, seen)
        held = {name: value for name, value in vars(theirs).items() if isinstance(value, torch.Tensor)}
        assert len(held) >= 3
        for name, value in held.items():
            assert isinstance(value, There)
            assert torch.equal(value.cpu(), getattr(ours, name))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("neighbourhood", "ifca")])  # they choose
@pytest.mark.parametrize("prior", [None, 0.5])
def test_an_update_reads_only_single_numbers(problem, kind, prior):
    """Only what is logged: waiting for more would stall a GPU."""
    here = problem(double=False, kind=kind)
    here = replace(here, data=replace(here.data, site=np.arange(7) % 2).with_prior(prior))
    with Pretend() as device:
        algorithm = build(replace(here, data=here.data.to(PRETEND), start=here.start.to(PRETEND)), kind)
        for clients, progress in VISITS:
            device.read.clear()
            algorithm.exchange(np.array(clients), progress)
            algorithm.update(Contact(np.array(clients), 4, progress, clients[0], np.arange(4)))
            assert 1 <= len(device.read) <= 4
            assert set(device.read) == {1}


def test_a_complete_run_on_another_device_writes_the_same_log(small, monkeypatch):
    def rows_of(device):
        monkeypatch.setattr("fedmule.simulator.build.choose_device", lambda name: device)
        simulation, rows = Simulation(small(learning={"validation_share": 0.1})), []
        log = NoLog()
        log.contact = rows.append
        over = simulation.start(log)
        simulation.env.run(until=over)
        assert simulation.learner.algorithm.models.device == device
        return [{name: value for name, value in vars(row).items() if name != "host_time_s"} for row in rows]

    expected = rows_of(torch.device("cpu"))
    with Pretend():
        found = rows_of(PRETEND)
    assert len(found) == len(expected)
    assert sum(not row["in_passing"] for row in found) == 20
    for ours, theirs in zip(found, expected, strict=True):
        known, lyapunov = ours.pop("lyapunov"), theirs.pop("lyapunov")
        assert known == (None if lyapunov is None else pytest.approx(lyapunov, rel=1e-4))
        np.testing.assert_equal(ours, theirs)


def test_a_prior_is_counted_where_the_data_are(problem):
    """Nothing is read from the device, neither at the start nor when labels change."""
    here = problem(double=False).data
    with Pretend() as device:
        there = here.to(PRETEND).with_prior(0.5)
        there.prior.recount(there, np.array([2, 5]))
        assert device.read == []
        assert isinstance(there.prior.log, There)
        assert torch.equal(there.prior.log.cpu(), here.with_prior(0.5).prior.log)


def test_mixing_devices_is_detected():
    with Pretend() as device:
        there, here = torch.ones(3).to(PRETEND), torch.ones(3)
        for mix in (
            lambda: there + here,
            lambda: torch.where(here > 0, there, there),
            lambda: torch.stack([here, there]),
        ):
            with pytest.raises(RuntimeError, match="mixes devices"):
                mix()
        assert (there + 1).device == PRETEND
        assert (there + here.to(PRETEND)).cpu().tolist() == [2, 2, 2]
        assert device.read == [3]
        assert float(there.sum()) == 3
        assert device.read == [3, 1]
