"""What finding contacts costs: `python tests/benchmarks/trace_contacts.py`.

Random waypoint, 50 nodes per km², an hour, 100 m: CPU time and memory of `fedmule contacts` in a process of its own,
reading and writing CSV; and how many times as fast the search is as a plain one with numpy, on fewer nodes.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fedmule.mobility.traces.contacts import Contacts, find_contacts
from fedmule.mobility.traces.formats.tables import write_csv
from fedmule.mobility.traces.trace import Rows, Trace, positions_at

RANGE_M = 100.0
HOUR_S = 3600.0


def waypoint_trace(n: int, seed: int = 0) -> Trace:
    """Random waypoint at 50 nodes per km², 1 to 5 m/s, pauses up to 30 s."""
    generator = np.random.default_rng(seed)
    side = 1000 * np.sqrt(n / 50)
    rows = Rows()
    for i in range(n):
        t, here = 0.0, generator.uniform(0, side, 2)
        rows.add(str(i), t, *here)
        while t < HOUR_S:
            there = generator.uniform(0, side, 2)
            t += float(np.hypot(*(there - here)) / generator.uniform(1, 5))
            here = there
            for pause in (0.0, generator.uniform(0, 30)):
                t += pause
                rows.add(str(i), t, *here)
    return rows.trace()


def plain_contacts(trace: Trace, range_m: float, until_s: float) -> int:
    """How many contacts there are, pair by pair over all waypoints of the two: the roots by numpy."""
    count = 0
    for a in range(len(trace)):
        for b in range(a):
            own = [trace.t[trace.first[i] : trace.first[i + 1]] for i in (a, b)]
            cuts = np.unique(np.concatenate([*own, [0.0, until_s]]))
            cuts = cuts[cuts <= until_s]
            pair = Trace(["a", "b"], *_rows_of(trace, a, b))
            x, y = positions_at(pair, cuts)
            gap = np.stack([x[0] - x[1], y[0] - y[1]])
            change = np.diff(gap)
            square, half = (change**2).sum(0), (gap[:, :-1] * change).sum(0)
            inside = half**2 - square * ((gap[:, :-1] ** 2).sum(0) - range_m**2)
            with np.errstate(invalid="ignore", divide="ignore"):
                root = np.sqrt(inside)
                low, high = np.maximum((-half - root) / square, 0), np.minimum((-half + root) / square, 1)
            still = (square == 0) & ((gap[:, :-1] ** 2).sum(0) <= range_m**2)
            met = (low <= high) | still
            starts = np.where(still, 0, low)
            count += int(met[0]) + int((met[1:] & ~(met[:-1] & (starts[1:] == 0))).sum())
    return count


def _rows_of(trace: Trace, a: int, b: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rows = np.concatenate([np.arange(trace.first[i], trace.first[i + 1]) for i in (a, b)])
    sizes = np.diff(trace.first)[[a, b]]
    return np.concatenate([[0], np.cumsum(sizes)]), trace.t[rows], trace.x[rows], trace.y[rows]


def times_faster(n: int) -> tuple[float, Contacts, int]:
    """How many times as fast as the plain search, with what both found."""
    trace = waypoint_trace(n)
    find_contacts(trace, RANGE_M, HOUR_S)  # compiled, or loaded
    began = time.process_time()
    found = find_contacts(trace, RANGE_M, HOUR_S)
    between = time.process_time()
    plain = plain_contacts(trace, RANGE_M, HOUR_S)
    return (time.process_time() - between) / (between - began), found, plain


def end_to_end(n: int, folder: Path) -> tuple[float, float, int]:
    """CPU seconds, MB and contacts of the command in a process of its own, on its second run."""
    write_csv(folder / "trace.csv", waypoint_trace(n))
    command = [sys.executable, "-m", "fedmule", "contacts", "trace.csv", "--range-m", str(RANGE_M)]
    command += ["--until-s", str(HOUR_S), "--out", "contacts.csv"]
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    with (folder / "contacts.csv").open() as file:
        return cpu_s, after.ru_maxrss / 1024, sum(1 for _ in file) - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[3_000, 10_000])
    parser.add_argument("--plain", type=int, default=100, metavar="N", help="nodes for the plain search (default 100)")
    arguments = parser.parse_args()
    print(f"{'nodes':>8} {'contacts':>9} {'CPU s':>7} {'MB':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for n in arguments.sizes:
            cpu_s, memory_mb, count = end_to_end(n, Path(folder))
            print(f"{n:>8} {count:>9} {cpu_s:>7.2f} {memory_mb:>6.0f}")
    ratio, found, plain = times_faster(arguments.plain)
    print(f"{arguments.plain} nodes: {ratio:.0f} times as fast as plain numpy ({len(found)} contacts, plain {plain})")


if __name__ == "__main__":
    main()
