"""What this machine can do, one thread: `python tests/benchmarks/roofline.py`.

The limits beside which the figures of docs/performance.md are read: products of matrices, copies in memory, events of
SimPy, calls of NumPy and of compiled functions; and what the compiled training of a dense model reaches of the first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import simpy
import torch

from fedmule.learning.data.client_data import ClientData
from fedmule.learning.models.logistic import MLR
from fedmule.learning.models.mlp import MLP
from fedmule.learning.steps import descend, kernels_for

EVENTS = 20_000
STEPS, BATCH = 200, 20


def seconds(call: Callable[[], Any], times: int, rounds: int = 7) -> float:
    """CPU seconds of a call: the least of some rounds of it."""
    call()
    spent = []
    for _ in range(rounds):
        began_s = time.process_time()
        for _ in range(times):
            call()
        spent.append((time.process_time() - began_s) / times)
    return min(spent)


def matrix_gflops(size: int = 1024) -> float:
    """10⁹ operations per second of a product of two matrices of float32."""
    a = torch.rand(size, size)
    return 2 * size**3 / seconds(lambda: a @ a, 3) / 1e9


def copy_gbytes(megabytes: int = 256) -> float:
    """10⁹ bytes per second, read and written, of a copy that no cache holds."""
    a = torch.zeros(megabytes << 18)
    b = torch.empty_like(a)
    return 2 * 4 * len(a) / seconds(lambda: b.copy_(a), 3) / 1e9


def events_per_s() -> float:
    """Events of SimPy per second: a process that waits again and again."""

    def run() -> None:
        environment = simpy.Environment()

        def life() -> Generator[simpy.Event, None, None]:
            for _ in range(EVENTS):
                yield environment.timeout(1)

        environment.run(environment.process(life()))

    return EVENTS / seconds(run, 1)


def numpy_call_us() -> float:
    """Microseconds of a sum of two NumPy arrays of ten numbers."""
    a = np.zeros(10)
    return 1e6 * seconds(lambda: a + a, 10_000)


def compiled_call_us() -> float:
    """Microseconds of a call of a compiled function with three arrays."""
    x = torch.zeros(2)
    kernels = kernels_for(x)
    model, widths, features = x.numpy(), np.array([1, 1]), np.zeros((1, 1), np.float32)
    return 1e6 * seconds(lambda: kernels.scores(model, widths, features), 10_000)


def training_gflops(model: MLP) -> float:
    """10⁹ operations per second of the compiled training of one model."""
    g = torch.Generator().manual_seed(0)
    features = torch.randn(500, model.widths[0], generator=g)
    labels = torch.randint(model.widths[-1], (500,), generator=g)
    data = ClientData(features, labels, model.widths[-1], np.array([0, 500]), np.array([400]))
    start = model.start(np.random.default_rng(0)).unsqueeze(0)
    batches = torch.randint(400, (STEPS, 1, BATCH), generator=g)
    return STEPS * model.flops(BATCH) / seconds(lambda: descend(model, data, start, batches, 0.01), 3) / 1e9


def main() -> dict[str, float]:
    torch.set_num_threads(1)
    results = {}
    for name, unit, found in (
        ("product of two 1024 × 1024 matrices", "GFLOP/s", matrix_gflops()),
        ("training, MLR 60 × 10", "GFLOP/s", training_gflops(MLR(60, 10))),
        ("training, MLR 784 × 10", "GFLOP/s", training_gflops(MLR(784, 10))),
        ("training, MLP 784-100-100-10", "GFLOP/s", training_gflops(MLP(784, 10, (100, 100)))),
        ("copy in memory", "GB/s", copy_gbytes()),
        ("events of SimPy", "per ms", events_per_s() / 1e3),
        ("call of NumPy", "µs", numpy_call_us()),
        ("call of a compiled function", "µs", compiled_call_us()),
    ):
        results[name] = found
        print(f"{name:<38} {found:>8.1f} {unit}")
    return results


if __name__ == "__main__":
    main()
