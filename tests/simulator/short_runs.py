"""Running a scenario in a test, and comparing two runs."""

from __future__ import annotations

import signal
from pathlib import Path

import pandas as pd

from fedmule.analysis import Run, load_run
from fedmule.simulator.runs.run import run_scenario
from fedmule.simulator.scenario import Scenario


def run(scenario: Scenario, folder: Path) -> Run:
    run_scenario(scenario, str(folder))
    return load_run(folder)


def heed_ctrl_c() -> None:
    """Undo, in a program about to start, what a shell does to those it starts in the background: they ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def same(a: pd.DataFrame, b: pd.DataFrame) -> None:
    ours = [c for c in a.columns if not c.startswith("host_")]
    pd.testing.assert_frame_equal(a[ours], b[ours], check_exact=True)
