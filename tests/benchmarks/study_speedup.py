"""What a second process gains: `python tests/benchmarks/study_speedup.py`.

A study of equal points with one worker and with two, in turn: how many times as fast two are. On a machine with less
than two idle cores it shows what else runs there.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from fedmule.simulator.studies.batch import run_plan
from fedmule.simulator.studies.plan import StudyFile, plan_study


def seconds(jobs: int, points: int, visits: int) -> float:
    """Of wall time for a study of equal points."""
    keys = {"stop.visits": visits, "log.track": False}
    names = tuple(f"point {i}" for i in range(points))
    plan = plan_study(StudyFile(scenarios=("smoke",), set=keys, vary={"name": names}, seeds=1))
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        failures = run_plan(plan, Path(folder), jobs=jobs, quiet=True).failures
        took = time.perf_counter() - began
    assert not failures
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=6)
    parser.add_argument("--visits", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(given.rounds):
        for jobs, took in times.items():
            took.append(seconds(jobs, given.points, given.visits))
    one, two = (min(took) for took in times.values())
    print(
        f"{given.points} equal points: {one:.1f} s with one worker, {two:.1f} s with two: {one / two:.2f} times as fast"
    )


if __name__ == "__main__":
    main()
