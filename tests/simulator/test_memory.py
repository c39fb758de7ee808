"""Memory of a run, estimated before it is allocated."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fedmule.learning import free_memory, memory
from fedmule.learning.algorithms.base import Algorithm
from fedmule.learning.errors import MemoryShortError
from fedmule.learning.free_memory import readable
from fedmule.learning.memory import estimate, free_bytes, require_memory
from fedmule.simulator.cli import main
from fedmule.simulator.engine import Simulation
from fedmule.simulator.scenario import Scenario

Small = Callable[..., Scenario]
CPU = torch.device("cpu")


def tensors_of(algorithm: Algorithm) -> list[torch.Tensor]:
    """All tensors of an algorithm on its device, including those of its reference."""
    found = [value for value in vars(algorithm).values() if isinstance(value, torch.Tensor)]
    for value in vars(algorithm).values():
        found += tensors_of(value) if isinstance(value, Algorithm) else []
    return found


def size(tensors: list[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@pytest.mark.parametrize(
    "keys",
    [
        *(
            {"algorithm": {"kind": "rwsadmm", "variant": variant}}
            for variant in ("slack", "relay", "derived", "printed")
        ),
        *({"algorithm": kind} for kind in ("fedavg", "walkman", "ditto", "apfl", "pfedme", "per_fedavg", "local")),
        *({"algorithm": kind} for kind in ("fedrod", "fedala")),
        {"algorithm": "fedrep", "model": "mlp"},
        {"algorithm": {"kind": "local", "reference": "fedavg"}},
        {"algorithm": {"kind": "rwsadmm", "growing_mean": False}},
        {"model": "mlp"},
    ],
)
def test_the_estimate_is_what_the_tensors_take(small: Small, keys: dict[str, Any]) -> None:
    """Tensors [n,d] and the data to the byte; everything within a few per cent, before and after the run."""
    simulation = Simulation(small(clients={"count": 40}, learning=keys, stop={"visits": 10}))
    algorithm, said = simulation.learner.algorithm, simulation.learner.memory_bytes
    data = size([algorithm.data.features, algorithm.data.labels])
    for _ in range(2):
        held = tensors_of(algorithm)
        if choice := simulation.learner.choice:
            held.append(choice.alone.models)
        large = [tensor for tensor in held if tensor.shape == (40, algorithm.model.parameters)]
        assert size(large) + data == said
        assert said < size(held) + data < 1.05 * said
        if simulation.ledger.visits == 0:
            simulation.run()


def test_estimate_by_hand() -> None:
    assert estimate(clients=100, parameters=610, state_copies=3, data_bytes=5000) == 4 * 100 * 610 * 3 + 5000
    assert [readable(count) for count in (0, 900, 12_345, 2_500_000, 1_600_000_000)] == [
        *("0.0 kB", "0.9 kB", "12.3 kB", "2.5 MB", "1.6 GB")
    ]


def test_a_run_that_does_not_fit_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    free = 80_000  # 12 clients, 610 parameters, three copies: 87,840 bytes
    monkeypatch.setattr(memory, "free_bytes", lambda device: free)
    monkeypatch.setattr("fedmule.learning.algorithms.rwsadmm.Slack.__init__", None)  # cannot be made
    assert main(["run", "smoke", "--device", "cpu"]) == 2
    said = capsys.readouterr().err
    assert "need about 87.8 kB, but cpu has 80.0 kB free: use fewer clients (clients.count), a smaller model" in said
    assert 'learning.device = "cpu"' not in said
    assert not (tmp_path / "runs").exists()


def test_a_run_that_fits_reports_its_memory_if_it_is_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(memory, "free_bytes", lambda device: 87_840)  # the data are there already
    one = ["run", "smoke", "--device", "cpu", "--set", "stop.visits=1"]
    assert main(one) == 0
    assert "memory" not in capsys.readouterr().err
    monkeypatch.setattr("fedmule.simulator.runs.run.MUCH_BYTES", 10_000)
    assert main(one) == 0
    assert re.search(r"^memory: about \d+\.\d [kM]B on cpu$", capsys.readouterr().err, re.MULTILINE)
    assert main([*one, "--quiet"]) == 0
    assert not capsys.readouterr().err
    monkeypatch.setattr(memory, "free_bytes", lambda device: None)  # where nobody knows, nobody is stopped
    assert main([*one, "--quiet"]) == 0


def test_a_gpu_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = torch.device("cuda:1")
    asked = []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: asked.append(device) or (10**9, 8 * 10**9))
    require_memory(10**9, gpu)
    with pytest.raises(
        MemoryShortError, match=r'about 1\.5 GB, but cuda:1 has 1\.0 GB free.*or learning\.device = "cpu"'
    ):
        require_memory(1_500_000_000, gpu)
    assert asked == [gpu, gpu]


def test_free_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "meminfo"
    monkeypatch.setattr(free_memory, "MEMINFO", table)
    table.write_text("MemTotal:       24000 kB\nMemFree:          100 kB\nMemAvailable:    2000 kB\n")
    assert free_bytes(CPU) == 2000 * 1024
    table.unlink()
    monkeypatch.setattr(
        free_memory.os, "sysconf", {"SC_PHYS_PAGES": 30, "SC_PAGE_SIZE": 4096}.__getitem__, raising=False
    )
    assert free_bytes(CPU) == 30 * 4096
    monkeypatch.delattr(free_memory.os, "sysconf")
    assert free_bytes(CPU) is None
