"""fedmule run --profile: where CPU time goes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedmule.analysis import load_run
from fedmule.simulator.runs import time_use
from fedmule.simulator.runs.time_use import MEANING, PARTS, TimeUse

PROFILED = [sys.executable, "-m", "fedmule", "run", "smoke", "--set", "stop.visits=8"]


def test_the_parts_of_a_run_add_up_to_its_cpu_time(tmp_path: Path) -> None:
    """The process measures itself; all of its parts took time, and the run is the one that is not profiled."""
    out = subprocess.run(
        [*PROFILED, "--profile", "--out", "a"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    seconds = json.loads((tmp_path / "a" / "profile.json").read_text())
    total = seconds.pop("cpu_s")
    assert sum(seconds.values()) == pytest.approx(total)
    assert len(seconds) == len(MEANING)
    assert seconds.pop("meetings_s") == 0  # there is one vehicle
    assert all(spent_s > 0 for spent_s in seconds.values())
    assert {"start_up_s", "event_loop_s", "training_s"} < set(seconds)
    assert all(part in out for part in MEANING)
    subprocess.run([*PROFILED, "--quiet", "--out", "b"], cwd=tmp_path, check=True)
    assert not (tmp_path / "b" / "profile.json").exists()
    a, b = (load_run(tmp_path / name).contacts.drop(columns="host_time_s") for name in "ab")
    assert a.equals(b)


def test_an_inner_call_is_charged_to_its_own_part(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time_use, "time", type("Clock", (), {"process_time": staticmethod(lambda: now[0])}))

    def spend(seconds: float) -> None:
        now[0] += seconds

    use = TimeUse()
    log = use._timed(lambda: spend(2.0), "log")

    def train() -> None:
        spend(1.0)
        log()
        spend(4.0)

    spend(0.5)
    use.started()
    use._timed(train, "training")()
    spend(0.25)
    use._change()
    spent = {part: seconds for part, seconds in use.spent_s.items() if seconds}
    assert spent == {"start-up": 0.5, "training": 5.0, "log": 2.0, "event loop": 0.25}
    assert "7.75 s of CPU" in use.table()


def test_nothing_is_timed_afterwards() -> None:
    calls = [(owner, name, getattr(owner, name)) for _, owner, names in PARTS for name in names.split()]
    with TimeUse(time.process_time()).watching():
        assert all(getattr(owner, name) is not call for owner, name, call in calls)
    assert all(getattr(owner, name) is call for owner, name, call in calls)
