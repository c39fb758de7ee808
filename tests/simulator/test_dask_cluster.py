"""Studies on a Dask cluster: real schedulers and workers on loopback, one of which is killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest

from fedmule.analysis import load_study
from fedmule.simulator.cli import main
from fedmule.simulator.runs.identity import this_program
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.studies.dask_cluster import Home, problems_of_workers
from fedmule.simulator.studies.workers import gpus_for

pytest.importorskip("distributed", reason="Dask is not installed (pip install fedmule[study])")

ROOT = Path(__file__).parents[2]
SCENARIO = """
[clients]
count = 4
mobility = "static"
[learning]
dataset = { kind = "synthetic", samples = [20, 40] }
evaluate_every = 50
[stop]
visits = 200
"""


class Dask:
    """A scheduler and workers as processes of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, []
        self.file = folder / "scheduler.json"
        self.start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-jupyter")
        until(self.file.exists)
        import json

        self.address = json.loads(self.file.read_text())["address"]

    def start(self, what: str, *options: str, packages: Path | None = None) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", what, "--scheduler-file", str(self.file), *options]
        environment = {**os.environ, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s"}
        if packages is not None:
            environment["PYTHONPATH"] = str(packages)
        process = subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.processes.append(process)
        return process

    def worker(self, threads: int = 1, packages: Path | None = None) -> subprocess.Popen[bytes]:
        options = ["--nthreads", str(threads), "--no-nanny", "--no-dashboard", "--host", "127.0.0.1"]
        return self.start("worker", *options, packages=packages)

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def dask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dask]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(SCENARIO)
    (tmp_path / "dask").mkdir()
    cluster = Dask(tmp_path / "dask")
    yield cluster
    cluster.stop()


def test_a_killed_worker_costs_nothing_but_time(dask: Dask, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, _ = dask.worker(), dask.worker()
    study = ["tiny.toml", "--vary", "vehicle.speed_mps=5,10,20", "--seeds", "2"]
    command = [sys.executable, "-m", "fedmule", "study", *study, "--engine", dask.address, "--out", "far"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ})
    runs = tmp_path / "far/runs"
    until(lambda: len(list(runs.glob("*.partial-*/contacts.arrows"))) == 2)  # both are at work
    first.kill()
    _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err.decode()
    assert main(["study", *study, "--out", "near", "--jobs", "2"]) == 0
    far, near = (load_study(tmp_path / name).index for name in ("far", "near"))
    assert list(far["status"]) == ["done"] * 6
    pd.testing.assert_frame_equal(
        far.drop(columns=[c for c in far if c.startswith("host_")]),
        near.drop(columns=[c for c in near if c.startswith("host_")]),
        check_exact=True,
    )
    assert not list(runs.glob("*.partial-*"))


def test_workers_with_another_program_or_several_threads_are_refused(
    dask: Dask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other" / "fedmule"
    other.mkdir(parents=True)
    shutil.copy(ROOT / "__init__.py", other)
    for package in ("simulator", "mobility", "radio", "learning", "scenarios", "analysis"):
        shutil.copytree(ROOT / package, other / package, ignore=shutil.ignore_patterns("__pycache__"))
    with (other / "learning/algorithms/rwsadmm.py").open("a") as file:
        file.write("\n# changed\n")
    dask.worker(packages=other.parent)
    dask.worker(threads=2)
    from distributed import Client

    with Client(dask.address) as client:
        client.wait_for_workers(2)
    status = main(["study", "tiny.toml", "--seeds", "1", "--engine", dask.address, "--out", "far"])
    err = capsys.readouterr().err
    assert status == 2
    assert "has another version of Fedmule (different: learning); install the same one everywhere" in err
    assert "computes 2 tasks at a time; start more workers with --nthreads 1" in err
    assert not (tmp_path / "far/runs").exists()


def test_an_address_where_nobody_answers_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fedmule.simulator.studies.dask_cluster.CONNECT_S", 1)
    for address in ("tcp://127.0.0.1:9", "nonsense://x", "hello"):
        assert main(["study", "smoke", "--engine", address, "--out", str(tmp_path / "far")]) == 2
        assert f"--engine {address}: no Dask scheduler answers there" in capsys.readouterr().err


def test_what_workers_must_have(tmp_path: Path) -> None:
    assert Home(this_program(), tmp_path).problem() is None
    assert "cannot see the folder" in str(Home(this_program(), tmp_path / "none").problem())
    assert "another version" in str(Home({**this_program(), "radio": "0"}, tmp_path).problem())
    answers = {
        "a": {"problem": None, "gpus": [("host", "0")]},
        "b": {"problem": "cannot see the folder x", "gpus": [("host", "0")]},
        "c": ModuleNotFoundError("No module named 'fedmule'"),
        "d": {"problem": None, "gpus": [("host", "1")]},
        "e": {"problem": None, "gpus": [("other", "1")]},
    }
    threads = {"a": 4, "b": 1}
    on_gpus = problems_of_workers(answers, threads, on_gpus=True)
    assert on_gpus == [
        "worker a computes 4 tasks at a time; start more workers with --nthreads 1 instead",
        "worker b cannot see the folder x",
        "worker c has no Fedmule, or another version: No module named 'fedmule'",
        "2 workers share GPU 0 of host; give each its own with CUDA_VISIBLE_DEVICES",
    ]
    assert problems_of_workers(answers, threads, on_gpus=False) == on_gpus[:3]


def test_gpus_are_shared_out_only_where_runs_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    auto, cpu = (Scenario.model_validate({"learning": {"device": device}}) for device in ("auto", "cpu"))
    assert gpus_for([cpu, auto]) == ["0", "1"]
    assert gpus_for([cpu]) == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    assert gpus_for([auto]) == ["4", "7"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpus_for([auto]) == []
