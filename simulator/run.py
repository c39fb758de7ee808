"""One run from a scenario to its folder, with progress, warnings and a clean end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from simulator.engine import Simulation
from simulator.memory import readable
from simulator.progress import progress_for, summary_text
from simulator.runfolder import RunLog, new_folder
from simulator.scenario import Scenario


def run_scenario(
    scenario: Scenario,
    out: str | None = None,
    plugins: dict[str, Any] | None = None,
    quiet: bool = True,
    interruptible: bool = True,
) -> dict[str, Any]:
    """Run a scenario into a new folder and return its summary, which names the folder as `folder`.

    `interruptible`: Ctrl-C and SIGTERM end the run after the present visit, and it is written down so far.
    """
    simulation = Simulation(scenario, plugins)
    folder = new_folder(out, scenario.name)
    log = RunLog(folder, scenario, str(simulation.learner.device), simulation.world.warnings)
    if not quiet:
        learning = scenario.learning
        sys.stderr.write(
            f"{scenario.name}: {scenario.clients.count} clients, {learning.algorithm.kind} on "
            f"{learning.dataset.kind}, seed {scenario.seed}, {simulation.learner.device} → {folder}\n"
            f"memory: about {readable(simulation.learner.memory_bytes)} on {simulation.learner.device}\n"
        )
        for warning in simulation.world.warnings:
            sys.stderr.write(f"warning: {warning}\n")
    progress = progress_for(quiet, scenario.stop.visits)
    with _interruptible(simulation) if interruptible else nullcontext():
        summary = simulation.run(log, progress)
    progress.close()
    if not quiet:
        sys.stdout.write(summary_text(summary, str(folder)) + "\n")
    return {**summary, "folder": str(folder)}


@contextmanager
def _interruptible(simulation: Simulation) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the run after the present visit; a second one ends it at once."""
    old: dict[int, Any] = {}

    def stop(number: int, frame: Any) -> None:
        signal.signal(number, old[number])
        simulation.ledger.interrupt()

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            old[int(number)] = signal.signal(number, stop)
    except ValueError:  # not in the main thread: signals are not ours
        pass
    try:
        yield
    finally:
        for name, handler in old.items():
            signal.signal(name, handler)
