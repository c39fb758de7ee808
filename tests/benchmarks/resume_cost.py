"""What resuming costs, as a share of the run: `python tests/benchmarks/resume_cost.py [warzone …]`.

Each scenario is run to its end, then again with a checkpoint at 95 % of its contacts, where it is killed and resumed,
with the world of the checkpoint and, by turns, with a replay of the complete past. Seconds are of CPU, without imports
and without building the world; a first run warms up. Medians over rounds; the bytes are those of the checkpoint's file
and, per contact, of what grows with their number.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

from fedmule.simulator.engine import Simulation
from fedmule.simulator.ledger import Ledger
from fedmule.simulator.runs.checkpoint import Checkpoints, checkpoint_file, last_checkpoint
from fedmule.simulator.runs.folder import RunLog
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.load import load_scenario
from fedmule.simulator.world_state import World

SHARE = 0.95
NEVER_S = 1e9


class Killed(Exception):
    """Raised in place of a process that dies."""


def run(scenario: Scenario, folder: Path, kill_after: int | None = None) -> tuple[int, float]:
    """Run into a folder; returns the contacts and the seconds. A run that is killed has written a checkpoint before."""
    folder.mkdir()
    simulation = Simulation(scenario)
    log = RunLog(folder, scenario, "cpu")
    checkpoints = Checkpoints(simulation, log, NEVER_S)

    def watch(ledger: Ledger) -> None:
        if ledger.contacts == kill_after:
            checkpoints._write()
            raise Killed

    began_s = time.process_time()
    try:
        simulation.run(log, watch)
    except Killed:
        log.release()
    return simulation.ledger.contacts, time.process_time() - began_s


def resume(scenario: Scenario, folder: Path, from_beginning: bool) -> float:
    """Seconds to resume a killed run, to its end."""
    simulation = Simulation(scenario)
    began_s = time.process_time()
    found, _ = last_checkpoint(folder)
    assert found is not None
    if from_beginning:
        found._world = World()
    log = RunLog(folder, scenario, "cpu", keep=found.rows)
    found.resume(simulation)
    Checkpoints(simulation, log, NEVER_S)
    simulation.run(log)
    return time.process_time() - began_s


def measure(name: str, rounds: int) -> str:
    """A line of the table."""
    scenario = load_scenario(name)
    complete, restored, replayed, lag, size, each = [], [], [], [], 0, 0.0
    with tempfile.TemporaryDirectory() as scratch:
        contacts, _ = run(scenario, Path(scratch) / "warm up")
        for number in range(rounds):
            complete.append(run(scenario, Path(scratch) / f"complete {number}")[1])
            for from_beginning, seconds in ((False, restored), (True, replayed)):
                folder = Path(scratch) / f"killed {number} {from_beginning}"
                run(scenario, folder, int(SHARE * contacts))
                found, _ = last_checkpoint(folder)
                assert found is not None
                lag.append(found.replayed)
                size = checkpoint_file(folder).stat().st_size
                journal, past = found._journal.arrays(), sum(p.nbytes for v in found._world.contacts for p in v)
                each = (sum(array.nbytes for array in vars(journal).values()) + past) / found.contacts
                seconds.append(resume(scenario, folder, from_beginning))
    whole = median(complete)
    return (
        f"| `{name}` | {contacts} | {whole:.2f} | {median(replayed) / whole:.0%} | {median(restored) / whole:.0%} | "
        f"{median(lag):.0f} | {size / 1e3:.0f} | {each:.0f} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", nargs="*", default=["smoke", "warzone", "city", "blackout"])
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print("| scenario | contacts | s | past replayed | world restored | contacts replayed | kB | B per contact |")
    print("|---|---|---|---|---|---|---|---|")
    for name in given.scenario:
        print(measure(name, given.rounds), flush=True)


if __name__ == "__main__":
    main()
