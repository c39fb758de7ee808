"""Batches: run the points of a plan side by side, skip those that are done, and collect failures."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedmule.simulator.runs.folder import is_done
from fedmule.simulator.runs.identity import Identity, differences, identity_of, program_on_disk
from fedmule.simulator.runs.lock import FolderLock
from fedmule.simulator.runs.progress import points_progress
from fedmule.simulator.scenario.plugins import load_plugins, plugin_folders
from fedmule.simulator.studies.index import index_of, is_current, run_folder, status_of, write_study
from fedmule.simulator.studies.plan import Plan, Point
from fedmule.simulator.studies.workers import Processes, Workers, partials

if TYPE_CHECKING:
    import pandas as pd

RETRIES = 2  # of a point whose process died


@dataclass(frozen=True)
class Failure:
    """A point that could not be run."""

    point: Point
    error: str


@dataclass(frozen=True)
class Outcome:
    """What became of a plan."""

    index: pd.DataFrame  # a row per point, in the plan's order
    failures: list[Failure]
    asked: frozenset[str] = frozenset()  # the runs that were asked for, as the index names them

    @property
    def diverged(self) -> int:
        """How many of the runs that were asked for diverged."""
        rows = self.index[self.index["run"].isin(self.asked)]
        return int((rows["status"] == "diverged").sum())


def run_plan(
    plan: Plan,
    out: Path,
    *,
    only: Iterable[Point] | None = None,
    engine: str | None = None,
    jobs: int | None = None,
    allow_plugins: bool = False,
    quiet: bool = False,
) -> Outcome:
    """Run the points of a plan that are not done, and write study.toml and index.parquet, even if interrupted.

    A run made by another program or with other data is not done: it is run again. `only` limits what is run, not what
    the index lists. Runs go to the Dask cluster at the address `engine`, or to processes on this machine.
    """
    folders = tuple(dict.fromkeys(folder for source in plan.study.scenarios for folder in plugin_folders(source)))
    identities = _identities(plan, out, allow_plugins, folders)
    asked = plan.points if only is None else tuple(only)
    points = {
        run_folder(out, point.scenario): replace(point, plugin_folders=folders if allow_plugins else None)
        for point in asked
    }
    if not quiet:
        _report_stale(identities, points)
    failures: dict[Path, str] = {}
    out.mkdir(parents=True, exist_ok=True)
    with FolderLock(out):
        try:
            if points:
                with _workers_for(engine, jobs, out) as workers:
                    run_batch(points, identities, failures, workers, quiet)
        finally:
            index = index_of(plan, out, identities, failures)
            write_study(out, plan.study, index)
    asked_for = frozenset(f"runs/{folder.name}" for folder in points)
    return Outcome(index, [Failure(points[folder], error) for folder, error in failures.items()], asked_for)


def run_batch(
    points: Mapping[Path, Point],
    identities: Mapping[Path, Identity],
    failures: dict[Path, str],
    workers: Workers,
    quiet: bool = False,
) -> None:
    """Run points whose folder has no run with the identity expected; enters the errors of those that fail.

    A point under way when a process dies is tried again, the last time with no other beside it, so that a point that
    kills its process takes no other down with it. Ctrl-C ends the batch at once and keeps what is done.
    """
    todo = {folder: point for folder, point in points.items() if not is_current(folder, identities[folder])}
    died: Counter[Path] = Counter()
    progress = points_progress(quiet or not todo, len(points), len(points) - len(todo))

    def report(folder: Path, error: str | None) -> None:
        error = error or _mismatch(folder, identities[folder])
        if error is not None:
            failures[folder] = error
        progress(len(failures))

    try:
        while todo:
            together = {folder: point for folder, point in todo.items() if died[folder] < RETRIES}
            group = together or dict([todo.popitem()])
            _clear(group)
            broken = workers.run(group, not together, report)
            under_way = [folder for folder in broken if partials(folder)]
            died.update(under_way or broken)
            for folder in broken:
                if died[folder] > RETRIES:
                    report(folder, f"its process died {died[folder]} times (did it run out of memory?)")
            todo = {f: p for f, p in points.items() if f not in failures and not is_current(f, identities[f])}
    finally:
        progress.close()
        _clear(points)


@contextmanager
def _workers_for(address: str | None, jobs: int | None, out: Path) -> Iterator[Workers]:
    """The cluster at an address, or processes on this machine; results go to the folder `out`."""
    if address is None:
        yield Processes(jobs)
    else:
        from fedmule.simulator.studies.dask_cluster import Cluster

        with closing(Cluster(address, out)) as cluster:
            yield cluster


def _identities(plan: Plan, out: Path, allow_plugins: bool, folders: tuple[Path, ...]) -> dict[Path, Identity]:
    """The identity that each point's run has if it is made now, by its folder."""
    program = program_on_disk()
    found = {}
    for point in plan.points:
        plugins = load_plugins(point.scenario, allow_plugins, folders)
        found[run_folder(out, point.scenario)] = identity_of(point.scenario, plugins, program)
    return found


def _report_stale(identities: Mapping[Path, Identity], points: Mapping[Path, Point]) -> None:
    """Say which runs count as not done, and what has changed since they were made."""
    reasons: Counter[tuple[bool, str]] = Counter()
    for folder, identity in identities.items():
        status, changes = status_of(folder, identity)
        if status == "stale":
            reasons[folder in points, str(changes)] += 1
    for (again, changes), count in reasons.items():
        what = "will be run again" if again else "not counted"
        sys.stderr.write(f"{count} run{'s are' if count > 1 else ' is'} out of date and {what}: {changes}\n")


def _mismatch(folder: Path, identity: Identity) -> str | None:
    """What is wrong with a run that was reported complete, if anything is."""
    if not is_done(folder):
        return f"it was reported complete, but {folder} has no complete run"
    changes = differences(folder, identity)
    return f"it was run with another program or other data than expected: {'; '.join(changes)}" if changes else None


def _clear(folders: Iterable[Path]) -> None:
    """Remove what incomplete runs left behind."""
    for folder in folders:
        for partial in partials(folder):
            shutil.rmtree(partial, ignore_errors=True)
