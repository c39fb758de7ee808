"""The hot paths against plain implementations: `python tests/benchmarks/hot_paths.py`.

CPU time, one thread, both sides interleaved; the ratio says how many times as fast ours is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from learning.algorithm import Contact, Settings
from learning.evaluate import Evaluator
from learning.mlr import MLR
from learning.partition import by_column, split
from learning.rwsadmm import Slack
from learning.synthetic import synthetic
from mobility.terrain import Terrain
from mobility.trajectory import Trajectories, place_at
from mobility.waypoint import Waypoint
from simulator.streams import Streams


def ratio(ours: Callable[[], Any], plain: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """Median microseconds of ours, and how many times as long the plain one takes."""
    times: list[tuple[float, float]] = []
    for _ in range(rounds + 1):
        stamps = [time.process_time()]
        for call in (ours, plain):
            call()
            stamps.append(time.process_time())
        times.append((stamps[1] - stamps[0], stamps[2] - stamps[1]))
    both = np.array(times[1:])
    return 1e6 * float(np.median(both[:, 0])), float(np.median(both[:, 1]) / np.median(both[:, 0]))


def algorithm(clients: int) -> Slack:
    streams = Streams(0)
    pool = synthetic(clients, streams.generator("data"), samples=(50, 100))
    data = split(pool, by_column(pool, clients, streams.generator("split")), streams.generator("split"))
    model = MLR(60, 10)
    settings = Settings(eps=0.05, open_at=2.0)
    return Slack(data, model, settings, model.start(streams.generator("model")), streams.draw("batches"))


def update_benchmark(active: int, rounds: int) -> tuple[float, float]:
    """A whole slack update of S clients against a loop over modules with autograd and the same equations."""
    ours, twin = algorithm(100), algorithm(100)
    clients = np.arange(active)
    n_modules = [torch.nn.Linear(60, 10) for _ in range(100)]
    settings = ours.settings

    def plain() -> None:
        batches = twin._batches(clients)
        token, beta, eta, eps = twin.token, settings.beta, settings.step_size, settings.eps
        for i, client in enumerate(clients):
            module = n_modules[client]
            shapes = [(60, 10), (10,)]
            y = torch.split(token, [600, 10])
            lam = torch.split(twin.duals[client], [600, 10])
            for rows in batches[:, i]:
                module.zero_grad()
                loss = torch.nn.functional.cross_entropy(module(twin.data.features[rows]), twin.data.labels[rows])
                loss.backward()
                with torch.no_grad():
                    for p, y_p, lam_p, shape in zip(module.parameters(), y, lam, shapes, strict=True):
                        like_p = y_p.view(shape).T if len(shape) == 2 else y_p
                        lam_like_p = lam_p.view(shape).T if len(shape) == 2 else lam_p
                        x0 = p - eta * p.grad
                        q = x0 - like_p + lam_like_p / beta
                        p.copy_(x0 - eta * beta / (1 + eta * beta) * (q - q.clamp(-eps, eps)))
            with torch.no_grad():
                x = torch.cat([module.weight.T.reshape(-1), module.bias])
                s = (x - token + twin.duals[client] / beta).clamp(-eps, eps)
                twin.duals[client] += settings.kappa * beta * (x - token - s)
                c = x - s + twin.duals[client] / beta
                token += (c - twin.contributions[client]) / 100
                twin.contributions[client] = c

    return ratio(lambda: ours.update(Contact(clients, active, 0.0)), plain, rounds)


def places_benchmark(clients: int, rounds: int) -> tuple[float, float]:
    """Everyone's place at a time against one interpolation per client."""
    trajectories = Trajectories(Waypoint(Terrain((5e3, 5e3)), clients, Streams(0).draw("mobility")))
    trajectories.positions(100.0)
    paths = [trajectories.path(i, 100.0) for i in range(clients)]
    now = np.array([100.0])
    return ratio(lambda: trajectories.positions(100.0), lambda: [place_at(t, xy, now) for t, xy in paths], rounds)


def evaluation_benchmark(clients: int, rounds: int) -> tuple[float, float]:
    """The accuracies after a contact of 8 clients against looking at everyone again."""
    evaluator = Evaluator(algorithm(clients))
    changed, everyone = np.arange(8), np.arange(clients)
    return ratio(lambda: evaluator.look_again(changed), lambda: evaluator.look_again(everyone), rounds)


def main(rounds: int = 30) -> dict[str, float]:
    torch.set_num_threads(1)
    results = {}
    for name, (ours_us, times) in {
        "update of 1 client, 10 steps": update_benchmark(1, rounds),
        "update of 10 clients, 10 steps": update_benchmark(10, rounds),
        "places of 1,000 moving clients": places_benchmark(1000, rounds),
        "accuracy after a contact, 1,000 clients": evaluation_benchmark(1000, rounds),
    }.items():
        results[name] = times
        print(f"{name:<42} {ours_us:>10.0f} µs   {times:>6.1f} × as fast as plain")
    return results


if __name__ == "__main__":
    main()
