"""Carrying out a study: its runs side by side, and their table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedmule.simulator.scenario.plugins import load_plugins, plugin_folders
from fedmule.simulator.studies.batch import Failure, run_batch
from fedmule.simulator.studies.plan import Study, StudyPoint, index_of, write_study
from fedmule.simulator.studies.workers import engine_for

if TYPE_CHECKING:
    import pandas as pd


def carry_out(
    study: Study,
    points: Sequence[StudyPoint],
    out: Path,
    *,
    engine: str | None = None,
    jobs: int | None = None,
    allow_plugins: bool = False,
    quiet: bool = False,
) -> tuple[pd.DataFrame, list[Failure]]:
    """Run the points that are not done, here or on the cluster at an address; write and return the index.

    The index is written when it is interrupted too.
    """
    folders = list(dict.fromkeys(folder for source in study.scenarios for folder in plugin_folders(source)))
    for point in points:
        load_plugins(point.scenario, allow_plugins, folders)
    failures: list[Failure] = []
    try:
        with engine_for(engine, jobs, out) as position:
            allowed = folders if allow_plugins else None
            failures = run_batch([p.scenario for p in points], out / "runs", position, quiet, allowed)
    finally:
        index = index_of(points, out / "runs", failures)
        write_study(out, study, index)
    return index, failures
