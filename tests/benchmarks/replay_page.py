"""Size and speed of the replay page: `python tests/benchmarks/replay_page.py [--clients 1000] [--steps 2000]`.

The run is made up: everyone turns at every step, at times of their own (the worst case) or all at once, and a vehicle
visits some of them at every tenth step and serves one in passing between visits. Frames are counted in headless
Chromium without a GPU while the page plays.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from browser import chromium, chromium_path, wait_until

from fedmule.analysis import Run
from fedmule.analysis.replay import run_page

SIDE_M = 3000.0
EVALUATIONS = 100


def made_up_run(clients: int, steps: int, together: bool, seed: int = 0) -> Run:
    """A run in which every client has a waypoint at every step of ten seconds on average."""
    draw = np.random.default_rng(seed)
    end_s = 10.0 * steps
    times = np.linspace(0, end_s, steps)[None].repeat(clients, axis=0)
    if not together:
        times = np.sort(
            np.concatenate([times[:, [0, -1]], draw.uniform(0, end_s, (clients, steps - 2))], axis=1), axis=1
        )
    velocity = draw.normal(0, 8.0, (clients, steps, 2))
    for k in range(1, steps):
        velocity[:, k] = 0.85 * velocity[:, k - 1] + 0.53 * velocity[:, k]
    walk = draw.uniform(0, SIDE_M, (clients, 1, 2)) + np.cumsum(velocity, axis=1)
    positions = SIDE_M - np.abs(walk % (2 * SIDE_M) - SIDE_M)  # thrown back at the borders
    track = pd.DataFrame(
        {
            "sim_time_s": np.concatenate([times.ravel(), times[0]]),
            "node": ["client"] * (clients * steps) + ["vehicle"] * steps,
            "id": np.concatenate([np.repeat(np.arange(clients), steps), np.zeros(steps, dtype=np.int64)]),
            "x_m": np.concatenate([positions[:, :, 0].ravel(), positions[0, :, 0]]),
            "y_m": np.concatenate([positions[:, :, 1].ravel(), positions[0, :, 1]]),
        }
    )
    return Run(
        folder=Path("made up"),
        scenario={
            "seed": seed,
            "terrain": {"size_m": [SIDE_M, SIDE_M], "obstacles": [], "surfaces": []},
            "vehicle": {"speed_mps": 10.0},
            "clients": {"count": clients, "mobility": {"kind": "gauss_markov"}},
            "radio": {"kind": "disc", "range_m": 100.0},
            "learning": {"server": "vehicle", "algorithm": "rwsadmm", "model": "mlr", "dataset": {"kind": "synthetic"}},
            "log": {"track": True},
        },
        manifest={"name": f"{clients} clients × {steps} steps", "finished": True},
        summary={},
        contacts=_contacts(draw, clients, steps, end_s),
        clients=_evaluations(draw, clients, steps, end_s),
        track=track,
        graph=pd.DataFrame(),
    )


def _contacts(draw: np.random.Generator, clients: int, steps: int, end_s: float) -> pd.DataFrame:
    count = 2 * (steps // 10)
    passing = np.arange(count) % 2 == 0
    ids = [draw.choice(clients, 1 if alone else min(8, clients), replace=False) for alone in passing]
    accuracy = np.linspace(0.1, 0.9, count)
    return pd.DataFrame(
        {
            "contact": np.arange(1, count + 1),
            "visit": np.cumsum(~passing),
            "in_passing": passing,
            "sim_time_s": np.linspace(end_s / count, end_s, count),
            "contact_s": np.full(count, 5.0),
            "client": [i[0] for i in ids],
            "vehicle": np.zeros(count, dtype=np.int64),
            "vehicle_x_m": draw.uniform(0, SIDE_M, count),
            "vehicle_y_m": draw.uniform(0, SIDE_M, count),
            "active_ids": ids,
            "delivered_ids": [i if len(i) == 1 else i[:-1] for i in ids],
            "personal_test_acc_mean": accuracy,
            "token_test_acc": accuracy,
            "bytes_down": np.full(count, 30_000),
            "bytes_up": np.array([30_000 * len(i) for i in ids]),
        }
    )


def _evaluations(draw: np.random.Generator, clients: int, steps: int, end_s: float) -> pd.DataFrame:
    visits = steps // 10
    evaluations = min(EVALUATIONS, visits)
    evaluation, client = (grid.ravel() for grid in np.mgrid[:evaluations, :clients])
    visit = evaluation * visits // evaluations
    took_part = draw.integers(0, 3, (evaluations, clients)).cumsum(axis=0).ravel()
    return pd.DataFrame(
        {
            "contact": 2 * visit,
            "visit": visit,
            "sim_time_s": evaluation * end_s / evaluations,
            "client": client,
            "test_acc": draw.uniform(0, 1, len(client)),
            "token_test_acc": draw.uniform(0, 1, len(client)),
            "visits": took_part // 4,
            "participations": took_part,
            "gradient_steps": 10 * took_part,
            "bytes_down": 30_000 * took_part,
            "bytes_up": 30_000 * took_part,
        }
    )


@dataclass(frozen=True)
class Measured:
    size_mb: float
    write_s: float
    open_s: float
    frames_per_s: float
    draw_ms: float  # median over frames


def measure(run: Run, play_s: float = 5.0) -> Measured:
    """Write a run's page, open it, play it for some seconds."""
    began = time.perf_counter()
    html = run_page(run)
    write_s = time.perf_counter() - began
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        file = Path(folder) / "replay.html"
        file.write_text(html, encoding="utf-8")
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        began = time.perf_counter()
        page.goto(file.as_uri())
        wait_until(page, "Boolean(window.replay?.frames)")
        open_s = time.perf_counter() - began
        page.keyboard.press("Space")
        page.wait_for_timeout(500)
        count = "[window.replay.frames, performance.now()]"
        before = page.evaluate(count)
        page.wait_for_timeout(1000 * play_s)
        after = page.evaluate(count)
        draw_ms = float(np.median(page.evaluate("window.replay.drawTimes")))
    frames_per_s = 1000 * (after[0] - before[0]) / (after[1] - before[1])
    return Measured(len(html.encode()) / 1e6, write_s, open_s, frames_per_s, draw_ms)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=2000)
    given = parser.parse_args()
    if chromium_path() is None:
        raise SystemExit("no Chromium on the PATH")
    print(f"{given.clients} clients × {given.steps} waypoints")
    for together in (True, False):
        found = measure(made_up_run(given.clients, given.steps, together))
        print(
            f"  {'turning together' if together else 'turning at times of their own':<30} {found.size_mb:5.1f} MB, "
            f"written in {found.write_s:.1f} s, open in {found.open_s:.1f} s, "
            f"{found.frames_per_s:.0f} frames per second, {found.draw_ms:.1f} ms to draw one"
        )


if __name__ == "__main__":
    main()
