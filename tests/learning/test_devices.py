"""Updates keep all their numbers on one device.

Torch's meta device stands for a GPU: like one, it refuses to mix with tensors elsewhere. Reading a number off it is
possible only for the scalars that are logged or decide something, which are stood in for here.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from learning.algorithm import Contact
from learning.mlp import MLP

META = torch.device("meta")
KINDS = [
    *("slack", "derived", "printed", "fedavg", "walkman", "local", "ditto", "apfl", "pfedme", "per_fedavg"),
    *("neighbourhood", "ifca", "squad_oracle"),
]


@pytest.mark.parametrize("mlp", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_an_update_mixes_no_devices(problem, monkeypatch, kind, mlp):
    here = problem(double=False)
    model = MLP(5, 3, (4, 4)) if mlp else here.model
    start = model.start(np.random.default_rng(0))
    data = replace(here.data.to(META), place=np.arange(7) % 2)
    there = replace(here, data=data, model=model, start=start.to(META))
    assert there.data.features.device == META
    algorithm = there.build(kind, fine_tune=True, apfl_adaptive=True, per_fedavg_variant="hessian_free")
    read, chosen = [], []
    monkeypatch.setattr(torch.Tensor, "__float__", lambda self: read.append(self.numel()) or 0.0)
    monkeypatch.setattr(torch.Tensor, "__int__", lambda self: chosen.append(self.numel()) or 0)
    for clients, progress in (([0, 3], 0.0), ([3], 0.1), ([0, 1, 2], 0.9), ([0, 3], 0.95)):
        algorithm.exchange(np.array(clients), progress)
        algorithm.update(Contact(np.array(clients), 4, progress, clients[0], np.array(clients)))
    tensors = [value for value in vars(algorithm).values() if isinstance(value, torch.Tensor)]
    assert len(tensors) >= 3
    assert all(tensor.device == META for tensor in tensors)
    assert len(read) <= 4 * 4
    assert set(read) == {1}  # single numbers only
    assert set(chosen) == ({1} if kind == "ifca" else set())


def test_mixing_would_be_noticed():
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.zeros(3, device=META) + torch.zeros(3)
