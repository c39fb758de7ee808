"""Many runs side by side: each in a folder named after its scenario; done ones are skipped, failures collected."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedmule.simulator.runs.folder import is_done
from fedmule.simulator.runs.progress import points_progress
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.load import to_toml
from fedmule.simulator.studies.workers import Engine, Point, Processes, partials

RETRIES = 2  # of a point whose process died


@dataclass(frozen=True)
class Failure:
    """A point that could not be run."""

    scenario: Scenario
    error: str


def run_folder(root: Path, scenario: Scenario) -> Path:
    """Where the run of a scenario lies: the resolved scenario's hash is its name."""
    return root / hashlib.sha256(to_toml(scenario).encode()).hexdigest()[:16]


def run_batch(
    scenarios: Iterable[Scenario],
    root: Path,
    engine: Engine | None = None,
    quiet: bool = False,
    plugin_folders: Sequence[Path] | None = None,
) -> list[Failure]:
    """Run every scenario that is not done yet, side by side; returns what failed.

    A point under way when a process dies is tried again, the last time with nobody beside it, so that a point that
    kills its process takes no other down. Ctrl-C ends at once and keeps what is done. With `plugin_folders` scenarios
    may name classes of the user's own.
    """
    engine = engine or Processes()
    own = None if plugin_folders is None else tuple(plugin_folders)
    points = {run_folder(root, scenario): Point(scenario, own) for scenario in scenarios}
    todo = {folder: point for folder, point in points.items() if not is_done(folder)}
    died: Counter[Path] = Counter()
    failures: dict[Path, str] = {}
    progress = points_progress(quiet or not todo, len(points), len(points) - len(todo))

    def tell(folder: Path, error: str | None) -> None:
        if error is None and not is_done(folder):
            error = f"it was done, but {folder} is not there"
        if error is not None:
            failures[folder] = error
        progress(len(failures))

    try:
        while todo:
            together = {folder: point for folder, point in todo.items() if died[folder] < RETRIES}
            group = together or dict([todo.popitem()])
            _clear(group)
            broken = engine.run(group, not together, tell)
            under_way = [folder for folder in broken if partials(folder)]
            died.update(under_way or broken)
            for folder in broken:
                if died[folder] > RETRIES:
                    tell(folder, f"its process died {died[folder]} times (was memory short?)")
            todo = {f: p for f, p in points.items() if f not in failures and not is_done(f)}
    finally:
        progress.close()
        _clear(points)
    return [Failure(points[folder].scenario, error) for folder, error in failures.items()]


def _clear(folders: Iterable[Path]) -> None:
    """Remove what runs left behind that did not come to their end."""
    for folder in folders:
        for partial in partials(folder):
            shutil.rmtree(partial, ignore_errors=True)
