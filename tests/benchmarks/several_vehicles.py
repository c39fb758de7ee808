"""Several vehicles: visits of each, simulated time and bytes until the token and the personal models are good.

    python tests/benchmarks/several_vehicles.py [--seeds 3] [--visits 240]

20 clients walk about with at most 50 handwritten digits each (fetch them with `fedmule data mnist`); one of them takes
part in a contact, and all contacts are visits. Where meetings are common the vehicles share 400 × 400 m and hear each
other over 100 m; where they are rare it is 2,000 × 2,000 m and 60 m.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable

import numpy as np

from fedmule.simulator.engine import Simulation
from fedmule.simulator.runs.columns import ContactRow, MeetingRow
from fedmule.simulator.runs.folder import NoLog
from fedmule.simulator.scenario import Scenario

SETTINGS = {"common": (400.0, 100.0), "rare": (2000.0, 60.0)}
TARGETS = (("token_test_acc", 0.8), ("personal_test_acc_mean", 0.85))
WAYS = ((1, "add_up"), (2, "add_up"), (4, "add_up"), (2, "average"), (4, "average"))


class Rows(NoLog):
    """Keeps what is measured here."""

    def __init__(self) -> None:
        self.contacts: list[ContactRow] = []
        self.meetings = 0

    def contact(self, row: ContactRow) -> None:
        self.contacts.append(row)

    def meeting(self, row: MeetingRow) -> None:
        self.meetings += 1


def scenario(count: int, merge: str, size_m: float, range_m: float, seed: int, visits: int) -> Scenario:
    learning = {
        "dataset": "mnist",
        "partition": {"kind": "dirichlet", "alpha": 0.3},
        "max_train_samples": 50,
        "active": "visited",
        "open_at": 1.0,
        "evaluate_every": 8,
        "algorithm": {"kind": "rwsadmm", "merge": merge},
    }
    return Scenario.model_validate(
        {
            "seed": seed,
            "terrain": {"size_m": [size_m, size_m]},
            "vehicle": {"count": count, "contact": "approach", "in_passing": False},
            "clients": {"count": 20, "mobility": "waypoint", "report_stagger": False},
            "radio": {"kind": "disc", "range_m": range_m, "rate_mbps": 10.0, "setup_s": 3.0},
            "learning": learning,
            "stop": {"visits": visits},
        }
    )


def measure(chosen: Scenario) -> dict[str, float]:
    """What one run had spent at each target, its meetings, and how good it was at its end."""
    rows = Rows()
    summary = Simulation(chosen).run(rows)
    sent = np.cumsum([row.bytes_down + row.bytes_up + row.bytes_between for row in rows.contacts])
    found: dict[str, float] = {"meetings": rows.meetings}
    for name, target in TARGETS:
        reached = [k for k, row in enumerate(rows.contacts) if (getattr(row, name) or 0.0) >= target]
        k = reached[0] if reached else None
        found[f"{name} visits"] = math.nan if k is None else (k + 1) / chosen.vehicle.count
        found[f"{name} s"] = math.nan if k is None else rows.contacts[k].sim_time_s
        found[f"{name} MB"] = math.nan if k is None else sent[k] / 1e6
        found[f"{name} end"] = 100 * summary[name]
    return found


def cell(values: Iterable[float], digits: int = 0) -> str:
    """The mean over seeds; how many of them never came to the target."""
    numbers = np.array(list(values))
    missing = int(np.isnan(numbers).sum())
    if missing == len(numbers):
        return "never"
    return f"{np.nanmean(numbers):.{digits}f}" + (f" ({missing} never)" if missing else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--visits", type=int, default=240)
    given = parser.parse_args()
    print("| meetings | vehicles | merge | meetings per 100 visits | token 80 %: visits of each | s | MB ", end="")
    print("| personal 85 %: visits of each | s | MB | token at the end, % | personal, % |")
    print("|" + "---|" * 12)
    for setting, (size_m, range_m) in SETTINGS.items():
        for count, merge in WAYS:
            runs = [measure(scenario(count, merge, size_m, range_m, s, given.visits)) for s in range(given.seeds)]
            columns = [cell((100 * run["meetings"] / given.visits for run in runs), 0)]
            for name, _ in TARGETS:
                columns += [
                    cell((r[f"{name} {what}"] for r in runs), int(what == "MB")) for what in ("visits", "s", "MB")
                ]
            columns += [cell((run[f"{name} end"] for run in runs), 1) for name, _ in TARGETS]
            merged = merge if count > 1 else "–"
            print(f"| {setting} | {count} | {merged} | " + " | ".join(columns) + " |", flush=True)


if __name__ == "__main__":
    main()
