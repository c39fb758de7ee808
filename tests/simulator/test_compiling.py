"""What a user sees while loops are compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fedmule.simulator.runs.compiling import LINE


def test_compiling_is_announced_once_and_only_where_it_happens(tmp_path: Path) -> None:
    """With an empty cache, then with the one that the first run has filled; quiet runs say nothing."""
    run = [sys.executable, "-m", "fedmule", "run", "smoke", "--set", "stop.visits=1"]

    def lines(name: str, cache: str, *more: str) -> str:
        place = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / cache)}
        command = [*run, "--out", str(tmp_path / name), *more]
        return subprocess.run(command, env=place, capture_output=True, text=True, check=True).stderr

    assert lines("first", "cache").count(LINE) == 1
    assert LINE not in lines("second", "cache")
    assert not lines("quiet", "other cache", "--quiet")
