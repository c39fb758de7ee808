"""Runs that were killed resume from their checkpoint, and end as if nothing had happened."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from short_runs import run, same

from fedmule.analysis import Run, load_run
from fedmule.learning.algorithms.fedavg import FedAvg
from fedmule.learning.errors import ReplayError
from fedmule.learning.learner import ReplayingLearner
from fedmule.mobility.models.static import Static
from fedmule.simulator import ledger, world_state
from fedmule.simulator.cli import main
from fedmule.simulator.engine import Simulation
from fedmule.simulator.errors import UserError
from fedmule.simulator.runs.checkpoint import Checkpoint, Checkpoints, checkpoint_file
from fedmule.simulator.runs.folder import NoLog
from fedmule.simulator.runs.run import run_scenario
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.world_state import Snapshots

Small = Callable[..., Scenario]

CONTACTS = Path(__file__).parents[1] / "reference" / "contacts" / "rwp_n50_r100_exact.csv.xz"
TABLES = ("contacts", "clients", "track", "graph", "meetings")


@pytest.fixture(autouse=True)
def snapshots_whenever_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the load of the machine, a checkpoint begins at the last moment between exchanges."""
    monkeypatch.setattr(world_state, "COPYING_SHARE", math.inf)


@pytest.fixture
def no_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the past is replayed."""
    monkeypatch.setattr(Snapshots, "after_event", lambda self: None)


class Killed(Exception):
    """Raised in place of a process that dies."""


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Path]:
    """killed(scenario, kept, at): the folder of a run with a checkpoint of contact `kept` that died after `at`."""

    def kill(scenario: Scenario, kept: int, at: int, resume: bool = False, plugins: Any = None) -> Path:
        def after_contact(self: Any) -> None:
            contacts = self._simulation.ledger.contacts
            if contacts == kept:
                self._write()
            if contacts == at:
                self._log.sync()  # what was flushed after the checkpoint
                raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(Checkpoints, "after_contact", after_contact)
            with pytest.raises(Killed):
                run_scenario(scenario, str(tmp_path / "killed"), plugins, resume=resume)
        return tmp_path / "killed"

    return kill


def resumed(scenario: Scenario, folder: Path) -> Run:
    run_scenario(scenario, str(folder), resume=True)
    return load_run(folder)


def alike(a: Run, b: Run) -> None:
    for table in TABLES:
        same(getattr(a, table), getattr(b, table))
    assert {k: v for k, v in a.summary.items() if k != "host_time_s"} == {
        k: v for k, v in b.summary.items() if k != "host_time_s"
    }


RELAY = {"kind": "rwsadmm", "variant": "relay", "centre": 0.5, "trust": 2.0, "token_mean": 0.5}
CASES: dict[str, dict[str, Any]] = {
    "averaged token": {
        "learning": {
            "algorithm": {"kind": "fedavg", "fine_tune": True, "token_mean": 0.9, "fine_tune_step_size": 0.05}
        },
        "vehicle": {"count": 2},
    },
    **{
        kind: {"learning": {"algorithm": kind, "model": {"kind": "mlp", "hidden": [6]}}}
        for kind in ("fedrep", "fedrod", "fedala", "feddbe")
    },
    **{
        f"fedex {mode}": {
            "learning": {"algorithm": {"kind": "fedex", "mode": mode}},
            "clients": {"training": "between_contacts"},
            "vehicle": {"count": 2},
        }
        for mode in ("sync", "async")
    },
    "rwsadmm": {},
    "derived": {"learning": {"algorithm": {"kind": "rwsadmm", "variant": "derived"}}},
    "relay": {"learning": {"algorithm": RELAY}},
    "neighbourhood": {"learning": {"algorithm": {"kind": "rwsadmm", "token": "neighbourhood"}}},
    "local": {"learning": {"algorithm": {"kind": "local", "reference": "ditto"}}},
    "apfl": {"learning": {"algorithm": "apfl"}},
    "ifca": {"learning": {"algorithm": {"kind": "ifca", "clusters": 2}}},
    "star": {"learning": {"algorithm": "fedavg", "server": "star", "active": 3}},
    "late": {"clients": {"late": 3, "late_at": 0.5}},
    "mlp": {"learning": {"model": "mlp"}},
    "payload": {"learning": {"payload_bytes": 500_000, "payload_flops_per_sample": 2e6}},
    "slow devices": {"clients": {"compute_flops_per_s": 3e4}, "learning": {"local_steps": 1}},
    "nobody alone": {"learning": {"alone": False}},
    "a route": {
        "vehicle": {"route": {"points": [[20.0, 20.0], [280.0, 20.0]], "end": "there_and_back"}},
        "stop": {"sim_time_s": 600.0},
    },
    "a contact list": {
        "terrain": {"obstacles": []},
        "clients": {"count": 20, "mobility": {"kind": "contacts", "path": str(CONTACTS)}},
        "vehicle": {"fleet": [{"follows": "48"}, {"follows": "49"}]},
        "stop": {"sim_time_s": 2000.0},
    },
    "by distance": {"vehicle": {"contact": "approach", "in_passing": False}},
    "aiming ahead": {
        "vehicle": {"search": "ahead"},
        "clients": {"report_period_s": 30.0, "report_delay_s": [5.0, 50.0], "report_loss": 0.3},
    },
    "two vehicles": {"vehicle": {"count": 2}, "radio": {"kind": "disc", "range_m": 80.0}},
    "three that average": {"vehicle": {"count": 3}, "learning": {"algorithm": "fedavg"}},
    "round the clock": {"vehicle": {"walk": "oldest_first"}, "stop": {"sim_time_s": 400.0}},
    "expected gain": {
        "vehicle": {"walk": "expected_gain", "count": 2},
        "learning": {"fit_steps": True},
        "clients": {"late": 2, "late_at": 0.4},
        "stop": {"sim_time_s": 300.0},
    },
    "lévy jumps": {"vehicle": {"walk": {"kind": "metropolis", "levy": 0.5}}},
    "groups": {
        "clients": {
            "count": 9,
            "groups": [
                {"count": 4, "mobility": {"kind": "squads", "squads": 2, "regroup_at_s": 30.0}, "radio_gain_db": -8.0},
                {"count": 3, "mobility": "static", "compute_flops_per_s": 1e6},
                {"count": 2, "mobility": "waypoint", "site": 0},
            ],
        },
        "learning": {"shift": "permuted"},
    },
    "prior": {
        "clients": {"mobility": {"kind": "squads", "squads": 2, "regroup_at_s": 30.0}},
        "learning": {"shift": "permuted", "prior": True},
    },
    "prior between contacts": {"clients": {"training": "between_contacts"}, "learning": {"prior": 2}},
    "regrouped": {
        "clients": {"mobility": {"kind": "squads", "squads": 2, "regroup_at_s": 30.0}},
        "learning": {"shift": "permuted"},
    },
}


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_run_is_the_one_that_was_not_killed(small: Small, tmp_path: Path, killed: Any, case: str) -> None:
    scenario = small(**CASES[case])
    complete = run(scenario, tmp_path / "complete")
    assert len(complete.contacts) > 13
    folder = killed(scenario, kept=7, at=13)
    again = resumed(scenario, folder)
    alike(complete, again)
    assert again.finished
    assert not (folder / "checkpoint").exists()
    assert len(again.manifest["resumed"]) == 1


@pytest.mark.parametrize("case", ["rwsadmm", "expected gain", "groups", "two vehicles"])
def test_a_past_without_a_snapshot_is_replayed_from_its_beginning(
    small: Small, tmp_path: Path, killed: Any, no_snapshots: None, case: str
) -> None:
    scenario = small(**CASES[case])
    folder = killed(scenario, kept=7, at=13)
    assert Checkpoint(checkpoint_file(folder)).replayed == 7
    alike(run(scenario, tmp_path / "complete"), resumed(scenario, folder))


# A radio that needs a moment only, so that there are many between exchanges.
QUICK = {"kind": "disc", "range_m": 40.0, "rate_mbps": 20.0, "setup_s": 0.2}
MOVEMENTS: dict[str, dict[str, Any]] = {
    kind: {"clients": {"mobility": kind}}
    for kind in ("static", "waypoint", "random_walk", "gauss_markov", "herd", "drift", "patrol")
}
WORLDS: dict[str, dict[str, Any]] = {
    **MOVEMENTS,
    "roads": {"clients": {"mobility": {"kind": "roads", "roads": {"block_m": [60, 60]}}}},
    "streets": {"clients": {"mobility": {"kind": "manhattan", "block_m": [60, 60]}}},
    **{
        f"{kind} unseen": {"clients": {"mobility": kind, "report_error_m": 9.0}, "log": {"track": False}}
        for kind in ("waypoint", "squads", "patrol")
    },
    "two vehicles, unseen": {"vehicle": {"count": 2, "search": "ahead"}, "log": {"track": False}},
    "redrawn": {"clients": {"mobility": {"kind": "redrawn", "every_visits": 3}}},
    "regrouped": CASES["regrouped"],
    "groups": CASES["groups"],
    "late": CASES["late"],
    "expected gain": CASES["expected gain"],
    "aiming ahead": CASES["aiming ahead"],
    "by distance": {"vehicle": {"contact": "approach"}},
    "a tour": {"vehicle": {"walk": "tour"}},
    "nearest": {"vehicle": {"walk": "nearest_unvisited"}, "clients": {"report_period_s": 20.0, "report_error_m": 9.0}},
    "visits only": {"vehicle": {"in_passing": False}},
    "two vehicles": {"vehicle": {"count": 2}},
    "two that drive on": {"vehicle": {"count": 2, "meeting": "drive_on"}, "learning": {"algorithm": "fedavg"}},
    "three with speeds": {"vehicle": {"fleet": [{"speed_mps": 9.0}, {"walk": "oldest_first"}, {"start": [290, 190]}]}},
    "a route and a walk": {"vehicle": {"fleet": [{"route": {"points": [[9.0, 9.0], [290.0, 9.0]]}}, {}]}},
}


@pytest.mark.parametrize("kept", [5, 11, 16])
@pytest.mark.parametrize("world", WORLDS)
def test_a_world_goes_on_from_between_two_exchanges(
    small: Small, tmp_path: Path, killed: Any, world: str, kept: int
) -> None:
    """Nothing but the last few contacts is replayed, and everything that follows is the same."""
    scenario = small(**{**WORLDS[world], "radio": QUICK})
    folder = killed(scenario, kept=kept, at=kept + 1)
    assert Checkpoint(checkpoint_file(folder)).replayed < kept
    alike(run(scenario, tmp_path / "complete"), resumed(scenario, folder))


def test_a_resumed_run_keeps_its_snapshot(small: Small, tmp_path: Path, killed: Any) -> None:
    """Killed again before there was another moment between exchanges, it goes on from the first one."""
    scenario = small(radio=QUICK)
    killed(scenario, kept=9, at=9)
    first = Checkpoint(checkpoint_file(tmp_path / "killed"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Snapshots, "after_event", lambda self: None)
        folder = killed(scenario, kept=12, at=14, resume=True)
    assert Checkpoint(checkpoint_file(folder)).replayed == first.replayed + 3
    alike(run(scenario, tmp_path / "complete"), resumed(scenario, folder))


class Hidden(Static):
    """May keep what a checkpoint cannot see."""


def test_a_movement_of_ones_own_is_replayed_from_its_beginning(small: Small, tmp_path: Path, killed: Any) -> None:
    scenario = small(clients={"mobility": {"kind": "test_resume:Hidden"}}, radio=QUICK)
    plugins = {"clients.mobility": Hidden}
    folder = killed(scenario, kept=7, at=9, plugins=plugins)
    assert Checkpoint(checkpoint_file(folder)).replayed == 7
    run_scenario(scenario, str(tmp_path / "complete"), plugins)
    run_scenario(scenario, str(folder), plugins, resume=True)
    alike(load_run(tmp_path / "complete"), load_run(folder))


@pytest.mark.parametrize(("kept", "at"), [(0, 1), (1, 1), (5, 5), (19, 19)])
def test_wherever_it_was_killed(small: Small, tmp_path: Path, killed: Any, kept: int, at: int) -> None:
    """After visit 5 everyone is evaluated; without a checkpoint the run starts again in its folder."""
    scenario = small()
    folder = killed(scenario, kept, at)
    assert checkpoint_file(folder).exists() == (kept > 0)
    alike(run(scenario, tmp_path / "complete"), resumed(scenario, folder))


def test_nobody_learns_again_what_the_checkpoint_has(
    small: Small, killed: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scenario = small(learning={"algorithm": "fedavg"})
    folder = killed(scenario, kept=15, at=15)
    updates = []
    update = FedAvg.update
    monkeypatch.setattr(FedAvg, "update", lambda self, contact: updates.append(contact) or update(self, contact))
    resumed(scenario, folder)
    assert len(updates) <= len(load_run(folder).contacts) - 15


class Clock:
    """Stands for the time module: a second passes whenever it is asked."""

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s

    def perf_counter(self) -> float:
        self.now_s += 1.0
        return self.now_s


def test_host_time_continues_from_the_checkpoint(
    small: Small, killed: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ledger, "time", Clock(1000.0))
    complete = run(small(), tmp_path / "complete")
    monkeypatch.setattr(ledger, "time", Clock(2000.0))
    folder = killed(small(), kept=7, at=13)
    monkeypatch.setattr(ledger, "time", Clock(9e6))  # long after, on a computer with another clock
    again = resumed(small(), folder)
    before, after = complete.contacts["host_time_s"], again.contacts["host_time_s"]
    assert before.tolist() == [k + 1.0 for k in range(len(before))]
    assert after[:7].tolist() == before[:7].tolist()
    assert after.is_monotonic_increasing
    # Writing the checkpoint asked once, and so did going on from it.
    assert ((after - before)[7:] <= 3.0).all()
    assert again.summary["host_time_s"] - complete.summary["host_time_s"] <= 3.0


def test_a_replay_leaves_learner_and_log_to_the_live_phase(
    small: Small, killed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to the checkpoint a replaying learner is in charge; then the one that was built, with its complete journal."""
    folder = killed(small(), kept=7, at=7)
    simulation, rows = Simulation(small()), []
    built = simulation.learner
    Checkpoint(checkpoint_file(folder)).resume(simulation)
    log = NoLog()
    log.contact = rows.append  # type: ignore[method-assign]
    simulation.start(log)
    assert isinstance(simulation.learner, ReplayingLearner)
    with pytest.raises(KeyboardInterrupt):
        simulation.interrupt()
    while simulation.ledger.contacts < 8:
        assert isinstance(simulation.learner, ReplayingLearner) == (simulation.ledger.contacts < 7)
        assert not rows
        simulation.env.step()
    assert simulation.learner is built
    assert [row.contact for row in rows] == [8]
    assert len(list(built.journal.costs())) >= 8


def test_a_replay_that_differs_from_the_run_is_refused(
    small: Small, killed: Any, no_snapshots: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a change of the program that nobody noticed: one client less is asked at the third visit."""
    folder, choose, calls = killed(small(), kept=7, at=13), Simulation._choose, []

    def other(self: Simulation, *given: Any) -> Any:
        calls.append(given)
        active = choose(self, *given)
        return active[:-1] if len(calls) == 3 and len(active) > 1 else active

    monkeypatch.setattr(Simulation, "_choose", other)
    with pytest.raises(UserError, match=r"cannot be resumed, its replay differs from the run: .*from its beginning"):
        run_scenario(small(), str(folder), resume=True)
    monkeypatch.undo()
    checkpoint, simulation = Checkpoint(checkpoint_file(folder)), Simulation(small())
    checkpoint._journal.add(next(checkpoint._journal.costs()))
    checkpoint.resume(simulation)
    with pytest.raises(ReplayError, match="fewer exchanges"):
        simulation.run()


def test_twice_killed(small: Small, tmp_path: Path, killed: Any) -> None:
    scenario = small()
    killed(scenario, kept=6, at=8)
    folder = killed(scenario, kept=12, at=16, resume=True)
    alike(run(scenario, tmp_path / "complete"), resumed(scenario, folder))


def test_an_interrupted_run_is_resumed(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends it after the present visit, with a checkpoint; the evaluation at its end is repeated."""
    scenario = small()
    complete = run(scenario, tmp_path / "complete")
    after_contact = Checkpoints.after_contact

    def stop(self: Any) -> None:
        if self._simulation.ledger.contacts == 7:
            self._simulation.ledger.interrupt()
        after_contact(self)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "after_contact", stop)
        part = run(scenario, tmp_path / "part")
    assert (len(part.contacts), part.finished) == (7, False)
    assert part.clients["contact"].max() == 7
    alike(complete, resumed(scenario, tmp_path / "part"))


def test_a_killed_process_is_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the command line, SIGKILL and the clock: checkpoints as often as can be."""
    keys = ["--set", "log.checkpoint_s=1e-9", "--set", "learning.local_steps=40"]
    folder = tmp_path / "killed"
    command = [sys.executable, "-m", "fedmule", "run", "smoke", *keys, "--quiet", "--out", str(folder)]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
    deadline = time.monotonic() + 600
    while not checkpoint_file(folder).exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not json.loads((folder / "manifest.json").read_text())["finished"]
    assert main(["run", "smoke", *keys, "--out", str(folder), "--resume"]) == 0
    assert "resuming after contact" in capsys.readouterr().err
    assert main(["run", "smoke", *keys, "--quiet", "--out", str(tmp_path / "complete")]) == 0
    alike(load_run(tmp_path / "complete"), load_run(folder))
    assert main(["run", "smoke", *keys, "--out", str(folder), "--resume"]) == 0
    assert "is finished already" in capsys.readouterr().out


def test_the_newest_unfinished_run_of_that_name(
    small: Small, killed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scenario = small()
    run_scenario(scenario)
    killed(scenario, 3, 4).rename("runs/small-2")
    killed(scenario, 6, 8).rename("runs/small-10")
    killed(small(seed=5), 6, 8).rename("runs/small-11")
    assert run_scenario(scenario, resume=True)["folder"] == "runs/small-10"
    assert run_scenario(scenario, resume=True)["folder"] == "runs/small-2"
    assert run_scenario(scenario, resume=True)["folder"] == "runs/small-3"  # nothing is left to resume


def test_what_cannot_be_resumed_is_reported(small: Small, killed: Any, tmp_path: Path) -> None:
    scenario = small()
    folder = killed(scenario, 6, 8)
    with pytest.raises(UserError, match=r"killed: holds a run of another scenario: there seed = 0, here 1"):
        run_scenario(small(seed=1), str(folder), resume=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="is not a run folder"):
        run_scenario(scenario, str(tmp_path / "other"), resume=True)


def test_a_run_under_way_is_not_taken_over(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = small()
    after_contact = Checkpoints.after_contact
    reported = []

    def meddle(self: Any) -> None:
        after_contact(self)
        if self._simulation.ledger.contacts == 4:
            with pytest.raises(UserError, match=r"is being written by another process \(process \d+ on ") as error:
                run_scenario(scenario, str(tmp_path / "run"), resume=True)
            reported.append(error)

    monkeypatch.setattr(Checkpoints, "after_contact", meddle)
    complete = run(scenario, tmp_path / "run")
    assert len(reported) == 1
    assert len(complete.visits) == 20


class Odd(FedAvg):
    """Keeps something that cannot be saved."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.odd = object()


def test_an_algorithm_that_cannot_be_saved_runs_without_checkpoints(
    small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = small(learning={"algorithm": {"kind": "test_resume:Odd"}}, log={"checkpoint_s": 1e-9})
    run_scenario(scenario, str(tmp_path / "run"), {"learning.algorithm": Odd}, quiet=False)
    assert "cannot be resumed: algorithm.odd is a object" in capsys.readouterr().err
    assert load_run(tmp_path / "run").finished
