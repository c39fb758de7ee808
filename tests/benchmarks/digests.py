"""Digests of what short runs compute: the same on one machine before and after a change that must not matter.

    python tests/benchmarks/digests.py --write before.json     # then change the program
    python tests/benchmarks/digests.py --check before.json     # names every column that differs; exit status 1

Covers every scenario that ships, cut short, and variations of them: radios, walks, vehicles, algorithms, a plugin.
Scenarios whose data set is not on this machine are left out with a note. Columns with `host_` do not count, nor do
columns that are new. `--set KEY=VALUE` applies to all runs, such as `--set vehicle.contact=approach`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

STORIES = ("warzone", "earthquake", "wildlife", "underwater", "city", "blackout", "smoke")
TABLES = ("contacts", "clients", "track", "graph", "meetings")

# Columns that have been renamed since a digest was taken: new name -> old name, which the digest is computed with.
RENAMED: dict[str, str] = {}

PLUGIN = """
import numpy as np
from fedmule import Movement, Radio
from fedmule.learning.algorithms.ditto import Ditto
from fedmule.radio.link import Ladder


class Row(Movement):
    def __init__(self, terrain, count, draw, gap_m):
        self.positions = np.stack([10 + gap_m * np.arange(count), np.full(count, 10.0)], axis=1)

    def start(self):
        return self.positions


class Whisper(Radio):
    def __init__(self, metres=20.0):
        self.metres = metres

    def ladder(self, loss_db):
        return Ladder(np.array([self.metres]), np.array([1e6]))


class MyDitto(Ditto):
    pass
"""

# name -> scenario and --set options
VARIATIONS: dict[str, tuple[str, ...]] = {
    "zigbee-metropolis-mlp": ("warzone", "radio=zigbee", "vehicle.walk=metropolis", "learning.model=mlp"),
    "ble-tour-apfl": (
        "earthquake", "radio=ble", "vehicle.walk=tour", "learning.active=3",
        "learning.algorithm={kind='apfl', adaptive=true}",
    ),
    "lora-two-vehicles": ("underwater", "radio=lora", "vehicle.count=2", "vehicle.walk=lazy"),
    "three-vehicles-average": (
        "city", "vehicle.count=3", "learning.algorithm={kind='rwsadmm', merge='average'}",
        "vehicle.meeting=drive_on",
    ),
    "late-neighbourhood": (
        "blackout", "clients.late=5", "learning.algorithm={kind='rwsadmm', token='neighbourhood'}",
        "vehicle.walk=oldest_first",
    ),
    "star-fine-tuned": (
        "smoke", "learning.server=star", "learning.active=5", "learning.algorithm={kind='fedavg', fine_tune=true}",
    ),
    "pfedme-disc": ("underwater", "radio=disc", "learning.algorithm=pfedme", "vehicle.walk=nearest_unvisited"),
    "local-of-ditto": (
        "warzone", "learning.algorithm={kind='local', reference={kind='ditto', strength=0.5}}",
    ),
    "derived-gauss-markov": (
        "smoke", "learning.algorithm={kind='rwsadmm', variant='derived', eps=0.01}", "clients.mobility=gauss_markov",
    ),
    "printed-manhattan": (
        "smoke", "learning.algorithm={kind='rwsadmm', variant='printed'}", "clients.mobility=manhattan",
    ),
    "walkman-patrol": ("smoke", "learning.algorithm=walkman", "clients.mobility=patrol"),
    "hessian-free-random-walk": (
        "smoke", "learning.algorithm={kind='per_fedavg', variant='hessian_free'}", "clients.mobility=random_walk",
    ),
    "ifca-sites": (
        "smoke", "learning.algorithm={kind='ifca', clusters=3}", "learning.dataset={alike_at_sites=0.5}",
    ),
    "oracle-regroup-permuted": (
        "smoke", "learning.algorithm=squad_oracle", "learning.shift=permuted",
        "clients.mobility={kind='squads', squads=3, regroup_at_s=60, regroup_share=0.5}",
    ),
    "shadowed-two-ray": (
        "warzone", "radio={kind='wifi_direct', propagation='two_ray', shadowing={db=4}}",
        "learning.algorithm.token_pace=0.5",
    ),
    "tube-per-layer": (
        "smoke", "learning.model={kind='mlp', hidden=[12]}",
        "learning.algorithm={kind='rwsadmm', eps=[0.1, inf], growing_mean=false, kappa_decay=0.99}",
    ),
    "own-classes": (
        "smoke", "learning.algorithm=digest_plugin:MyDitto", "clients.mobility={kind='digest_plugin:Row', gap_m=25.0}",
        "radio={kind='digest_plugin:Whisper', metres=60.0}",
    ),
}  # fmt: skip


def digests_of_table(folder: Path, name: str) -> dict[str, str]:
    """A hash of each column of a table, without those of the host's time."""
    table = pq.ParquetFile(folder / f"{name}.parquet").read()
    found = {}
    for column in table.column_names:
        old = RENAMED.get(column, column)
        with pa.BufferOutputStream() as sink:
            batch = pa.table({old: table[column].combine_chunks()})
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_table(batch)
            found[f"{name}.{old}"] = _digest(sink.getvalue())
    return _without_host_time(found)


def digests_of_summary(folder: Path) -> dict[str, str]:
    """A hash of each value of the summary."""
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    found = {f"summary.{RENAMED.get(key, key)}": _digest(json.dumps(value).encode()) for key, value in summary.items()}
    return _without_host_time(found)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _without_host_time(found: dict[str, str]) -> dict[str, str]:
    return {name: digest for name, digest in found.items() if ".host_" not in name}


def digests_of_run(program: list[str], scenario: str, options: tuple[str, ...], visits: int) -> dict[str, str]:
    """Run a scenario for some visits and return the digest of each column; empty if its data are not here."""
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "digest_plugin.py").write_text(PLUGIN, encoding="utf-8")
        out = Path(scratch) / "run"
        sets = [part for option in (*options, f"stop.visits={visits}") for part in ("--set", option)]
        command = [*program, "run", scenario, "--quiet", "--allow-plugins", "--out", str(out), *sets]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            if "fedmule data" in done.stderr:
                return {}
            raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
        found = digests_of_summary(out)
        for name in TABLES:
            found |= digests_of_table(out, name)
        return found


def digests_of_program(program: list[str], jobs: int, sets: list[str]) -> dict[str, dict[str, str]]:
    from fedmule.simulator.scenario.load import packaged_scenarios

    shipped = {name: (name, tuple(sets), 40 if name in STORIES else 4) for name in packaged_scenarios()}
    varied = {name: (scenario, (*options, *sets), 30) for name, (scenario, *options) in VARIATIONS.items()}
    work = {**shipped, **varied}
    with ThreadPoolExecutor(jobs) as pool:
        found = dict(zip(work, pool.map(lambda w: digests_of_run(program, *w), work.values()), strict=True))
    for name in [name for name, digests in found.items() if not digests]:
        print(f"{name}: left out, its data set is not on this machine")
        del found[name]
    return found


def differences(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> list[str]:
    """The columns that differ or are gone, as `run: table.column`; runs that are in both only."""
    both = [name for name in before if name in after]
    return [
        f"{name}: {column}" for name in both for column in before[name]
        if before[name][column] != after[name].get(column)
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="JSON")
    parser.add_argument("--check", type=Path, metavar="JSON")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--program", default=f"{sys.executable} -m fedmule")
    given = parser.parse_args()
    found = digests_of_program(given.program.split(), given.jobs, given.set)
    if given.write:
        given.write.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    if not given.check:
        return 0
    before = json.loads(given.check.read_text(encoding="utf-8"))
    differ = differences(before, found)
    print("\n".join(differ) or f"the same: {len(before.keys() & found.keys())} runs")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
