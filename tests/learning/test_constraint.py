"""Violation, L_β and M_β against plain loops over all clients."""

import math

import numpy as np
import pytest
import torch

from fedmule.learning.algorithms import constraint
from fedmule.learning.evaluate import Evaluator


class Run:
    """A run with an evaluator, which records separately what L_β and M_β need."""

    def __init__(self, small, kind, contacts, **keys):
        self.algorithm = algorithm = small.build(kind, **keys)
        if kind == "printed":
            algorithm.token = small.start.clone()
            algorithm.models = small.start.repeat(small.data.clients, 1)
        self.evaluator = Evaluator(algorithm)
        n, beta, eps = small.data.clients, algorithm.beta, algorithm._eps
        self.s, self.steps = np.zeros((n, len(small.start))), np.zeros(n)
        for contact in contacts:
            y, x, lam = (part.numpy().copy() for part in (algorithm.token, algorithm.models, algorithm.duals))
            algorithm.update(contact)
            self.evaluator.changed(contact.clients)
            self.evaluator.refresh()
            for i in contact.clients:
                now = algorithm.models[i].numpy()
                self.steps[i] = np.linalg.norm(now - x[i])
                self.s[i] = np.clip(now - y + lam[i] / beta, -eps, eps)

    def expected(self, plain, kind):
        algorithm = self.algorithm
        n, beta, eps = algorithm.data.clients, algorithm.beta, algorithm._eps
        y, lagrangian, excesses = algorithm.token.numpy(), 0.0, []
        for i in range(n):
            x, dual = algorithm.models[i].numpy(), algorithm.duals[i].numpy()
            residual = x - y - self.s[i] if kind == "slack" else np.abs(y - x) - eps
            lagrangian += plain.train_loss(x, algorithm.data, i)
            lagrangian += dual @ residual + beta / 2 * residual @ residual
            excesses += [max(0.0, abs(a - b) - eps) for a, b in zip(x, y, strict=True)]
        lagrangian /= n
        lyapunov = lagrangian + max(plain.smoothness(algorithm.data)) ** 2 / n * np.sum(self.steps**2)
        return np.array(excesses), lagrangian, lyapunov


KEYS = {"beta": 3.0, "kappa": 0.3, "eps": 0.01, "local_steps": 3, "batch_size": 5, "open_at": 2.0}


@pytest.mark.parametrize("kind", ["slack", "derived", "printed"])
@pytest.mark.parametrize("visits", [0, 3, 40])
@pytest.mark.parametrize("chunk", [4096, 3])
def test_diagnostics(problem, plain, contacts, monkeypatch, kind, visits, chunk):
    """With few visits some clients are never met: s = 0 for them."""
    monkeypatch.setattr(constraint, "CHUNK", chunk)
    run = Run(problem(), kind, contacts(7, visits, most=2), **KEYS)
    overview = run.evaluator.overview(0.4)
    excesses, lagrangian, lyapunov = run.expected(plain, kind)
    assert overview.constraint.violation_max == pytest.approx(excesses.max(), rel=1e-9)
    assert overview.constraint.violation_rms == pytest.approx(np.sqrt(np.mean(excesses**2)), rel=1e-9)
    assert overview.constraint.violated_share == pytest.approx(np.mean(excesses > 0))
    assert overview.constraint.dual_norm == pytest.approx(np.linalg.norm(run.algorithm.duals.numpy()))
    assert overview.lagrangian == pytest.approx(lagrangian, rel=1e-9)
    assert overview.lyapunov == pytest.approx(lyapunov, rel=1e-9)
    if visits == 3:
        assert (run.algorithm.participations == 0).any()
    if visits == 40:
        assert excesses.max() > 0
        assert lyapunov > lagrangian


def test_diagnostics_of_the_plain_mean(problem, plain, contacts):
    run = Run(problem(), "slack", contacts(7, 5), **KEYS, growing_mean=False)
    overview = run.evaluator.overview(0.4)
    _, lagrangian, lyapunov = run.expected(plain, "slack")
    assert overview.lagrangian == pytest.approx(lagrangian, rel=1e-9)
    assert overview.lyapunov == pytest.approx(lyapunov, rel=1e-9)


def test_diagnostics_in_single_precision(problem, plain, contacts):
    run = Run(problem(double=False), "slack", contacts(7, 30), **KEYS)
    overview = run.evaluator.overview(0.4)
    _, lagrangian, lyapunov = run.expected(plain, "slack")
    assert overview.lagrangian == pytest.approx(lagrangian, rel=1e-4)
    assert overview.lyapunov == pytest.approx(lyapunov, rel=1e-3)


def test_the_chunk_size_does_not_matter(problem, contacts, monkeypatch):
    run = Run(problem(clients=20), "slack", contacts(20, 40), **KEYS)
    complete = run.algorithm.constraint(0.4)
    for chunk in (1, 7, 20):
        monkeypatch.setattr(constraint, "CHUNK", chunk)
        parts = run.algorithm.constraint(0.4)
        assert vars(parts) == pytest.approx(vars(complete), rel=1e-12)


def test_measure_by_hand():
    models = torch.tensor([[1.0, 0.0], [-0.5, 0.3], [0.0, 0.0]])
    duals = torch.tensor([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])
    found = constraint.measure(models, lambda clients: torch.zeros(2), duals, 0.25, lambda rows: models[rows].sum())
    assert found.violation_max == pytest.approx(0.75)
    assert found.violation_rms == pytest.approx(math.sqrt((0.75**2 + 0.25**2 + 0.05**2) / 6))
    assert found.violated_share == pytest.approx(3 / 6)
    assert found.dual_norm == pytest.approx(5.0)
    assert found.penalty == pytest.approx(0.8 / 3)


def test_an_open_tube_constrains_nothing(problem, plain, contacts):
    run = Run(problem(), "slack", contacts(7, 20, progress=0.1), **{**KEYS, "open_at": 0.5})
    overview = run.evaluator.overview(0.5)
    found = overview.constraint
    assert (found.violation_max, found.violation_rms, found.violated_share, found.penalty) == (0, 0, 0, 0)
    losses = [plain.train_loss(run.algorithm.models[i].numpy(), run.algorithm.data, i) for i in range(7)]
    assert overview.lagrangian == pytest.approx(np.mean(losses))
