"""One run from a scenario to its folder, with progress, warnings and a clean end on Ctrl-C."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, cast

from fedmule.learning.errors import ReplayError
from fedmule.learning.free_memory import readable
from fedmule.simulator.engine import Simulation
from fedmule.simulator.errors import StateError
from fedmule.simulator.ledger import Ledger
from fedmule.simulator.runs.checkpoint import (
    Checkpoint,
    Checkpoints,
    checkpoint_file,
    folder_to_resume,
    last_checkpoint,
)
from fedmule.simulator.runs.columns import Summary
from fedmule.simulator.runs.compiling import Announcement
from fedmule.simulator.runs.folder import RunLog, finish_folder, is_done, new_folder, read_manifest
from fedmule.simulator.runs.identity import identity_of
from fedmule.simulator.runs.progress import progress_for, summary_text
from fedmule.simulator.runs.trackers import require, tracker
from fedmule.simulator.scenario import Scenario

if TYPE_CHECKING:
    from fedmule.simulator.runs.time_use import TimeUse

MUCH_BYTES = 500_000_000  # of memory: worth a line


class RunSummary(Summary):
    """The summary of a run, and where its folder is."""

    folder: str


def run_scenario(
    scenario: Scenario,
    out: str | None = None,
    plugins: dict[str, object] | None = None,
    quiet: bool = True,
    interruptible: bool = True,
    resume: bool = False,
    keep_models: bool | None = None,
    announce: bool = True,
    log_to: Sequence[str] = (),
    time_use: TimeUse | None = None,
) -> RunSummary:
    """Run a scenario into a new folder and return its summary, which names the folder as `folder`.

    `interruptible`: Ctrl-C and SIGTERM end the run after the present visit, with all that was done so far in the
    folder. `resume`: resume the unfinished run of this scenario in the folder, if there is one. `keep_models`: whether
    models are kept where `log.models` does not say; None: if they are small. `announce`: print what is run and, at the
    end, its summary, unless `quiet`. `log_to`: names of trackers that follow the run. `time_use`: where to
    note where CPU time goes; it is written into the folder.
    """
    for name in log_to:
        require(name)
    identity = identity_of(scenario, plugins)
    old = folder_to_resume(out, scenario, identity) if resume else None
    if old is not None and is_done(old):
        return _done(old, quiet)
    compiling = nullcontext() if quiet else Announcement()
    with compiling:
        simulation = Simulation(scenario, plugins)
    folder = new_folder(out, scenario.name) if old is None else old
    checkpoint, damage = (None, []) if old is None else last_checkpoint(old)
    keep = None if old is None else {} if checkpoint is None else checkpoint.rows
    device = str(simulation.learner.device)
    kept = keep_models if scenario.log.models is None else scenario.log.models
    world = simulation.world
    range_m = world.hearing.radio.range_m if world.placed else None  # on open ground
    trackers = [tracker(name, folder, scenario) for name in log_to]
    sys.stderr.writelines(f"warning: {problem}; what is older is used\n" for problem in damage)
    log = RunLog(folder, scenario, device, world.warnings, keep, identity.as_dict(), kept, range_m, trackers)
    if checkpoint is not None:
        checkpoint.resume(simulation)
    if not quiet:
        if announce:
            learning = scenario.learning
            sys.stderr.write(
                f"{scenario.name}: {scenario.clients.count} clients, {learning.algorithm.kind} on "
                f"{learning.dataset.kind}, seed {scenario.seed}, {simulation.learner.device} → {folder}\n"
            )
            if simulation.learner.memory_bytes >= MUCH_BYTES:
                sys.stderr.write(f"memory: about {readable(simulation.learner.memory_bytes)} on {device}\n")
        if resume:
            sys.stderr.write(_resumed(old, checkpoint))
        for warning in simulation.world.warnings:
            sys.stderr.write(f"warning: {warning}\n")
    progress = progress_for(quiet, scenario.stop.visits)
    checkpoints = Checkpoints(simulation, log, scenario.log.checkpoint_s)

    def watch(ledger: Ledger) -> None:
        progress(ledger)
        checkpoints.after_contact()

    try:
        with _interruptible(simulation) if interruptible else nullcontext(), compiling:
            if time_use is not None:
                time_use.started()
            summary = simulation.run(log, watch)
    except ReplayError as error:
        raise StateError(
            f"{folder}: cannot be resumed, its replay differs from the run: {error}; "
            f"without the folder {checkpoint_file(folder).parent} the run starts from its beginning"
        ) from None
    finally:
        progress.close()
        log.release()
    if checkpoints.problem is not None and not quiet:
        sys.stderr.write(f"warning: {checkpoints.problem}\n")
    if time_use is not None:
        time_use.write(folder)
    if announce and not quiet:
        sys.stdout.write(summary_text(summary, str(folder)) + "\n")
    return {**summary, "folder": str(folder)}


def _done(folder: Path, quiet: bool) -> RunSummary:
    """The summary of a run that is finished already."""
    summary = cast(Summary, json.loads((folder / "summary.json").read_text(encoding="utf-8")))
    if not (manifest := read_manifest(folder)).get("finished") or any(folder.glob("*.arrows")):
        finish_folder(folder, manifest, summary)  # it was killed when there was no more to do than this
    if not quiet:
        sys.stdout.write(f"{folder}: is finished already\n{summary_text(summary, str(folder))}\n")
    return {**summary, "folder": str(folder)}


def _resumed(old: Path | None, checkpoint: Checkpoint | None) -> str:
    """Where a run resumes."""
    if old is None:
        return "nothing to resume: starting a new run\n"
    if checkpoint is None:
        return f"{old}: has no checkpoint to resume from: starting from the beginning\n"
    return f"resuming after contact {checkpoint.contacts}\n"


@contextmanager
def _interruptible(simulation: Simulation) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the run after the present visit; a second one ends it at once."""
    old: dict[int, signal.Handlers | Callable[[int, FrameType | None], object] | int | None] = {}

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(number, old[number])
        simulation.interrupt()

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            old[int(number)] = signal.signal(number, stop)
    except ValueError:  # not in the main thread, which alone handles signals
        pass
    try:
        yield
    finally:
        for handled, handler in old.items():
            signal.signal(handled, handler)
