"""CPU time to load a large study: `python tests/benchmarks/study_loading.py`.

The runs are made up: each has the contacts of one real run of 300 visits, and those in passing between them, so that a
thousand are there in seconds.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import pandas as pd

from fedmule.analysis import load_run, load_study
from fedmule.simulator.runs.run import run_scenario
from fedmule.simulator.scenario.load import load_scenario
from fedmule.simulator.studies.index import write_study
from fedmule.simulator.studies.plan import StudyFile

COLUMNS = ("visit", "sim_time_s", "bytes_down", "bytes_up", "personal_test_acc_mean")


def make_study(folder: Path, runs: int, visits: int = 300) -> None:
    """A study of 10 speeds × seeds, all with the contacts of one run."""
    scenario = load_scenario("smoke", {"stop.visits": visits})
    first = folder / "runs" / "0"
    run_scenario(scenario, str(first))
    summary = load_run(first).summary
    rows = []
    for i in range(runs):
        if i:
            copied = folder / "runs" / str(i)
            copied.mkdir()
            os.link(first / "contacts.parquet", copied / "contacts.parquet")
        keys = {"run": f"runs/{i}", "scenario": "smoke", "seed": i // 10, "replication": i // 10}
        results = {name: value for name, value in summary.items() if name not in ("name", "seed")}
        rows.append({**keys, "vehicle.speed_mps": 1 + i % 10, "status": "done", "error": None, **results})
    study = StudyFile(name="large", scenarios=("smoke",), vary={"vehicle.speed_mps": tuple(range(1, 11))})
    write_study(folder, study, pd.DataFrame(rows))


def seconds(folder: Path) -> dict[str, float]:
    """CPU seconds to load the index, some columns of all contacts, all of them; and to draw a band for each speed."""
    from fedmule.analysis.plots import draw_curves

    study, found = load_study(folder), {}
    for name, work in {
        "index": lambda: load_study(folder).index,
        f"contacts, {len(COLUMNS)} columns": lambda: study.contacts(COLUMNS),
        "contacts, all columns": study.contacts,
        "curves with bands": lambda: draw_curves(study),
    }.items():
        began = time.process_time()
        work()
        found[name] = time.process_time() - began
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        make_study(Path(name), given.runs)
        for what, took in seconds(Path(name)).items():
            print(f"{given.runs} runs, {what}: {took:.2f} CPU s")


if __name__ == "__main__":
    main()
