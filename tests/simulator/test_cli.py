"""The command line as a user meets it: in a separate process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedmule.analysis import load_run
from fedmule.simulator.cli import main

LONG = ["--set", "stop.visits=100000"]


def fedmule(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fedmule", *arguments]
    nowhere = {**os.environ, "FEDMULE_DATA": str(cwd / "no data")}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=600, env=nowhere)


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fedmule", *arguments]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_visits(folder: Path, visits: int) -> None:
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        if (folder / "contacts.arrows").exists() and len(load_run(folder).contacts) >= visits:
            return
        time.sleep(0.1)
    raise AssertionError("the run did not get under way")


def test_a_run_by_name_from_any_folder(tmp_path: Path) -> None:
    done = fedmule("run", "smoke", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"smoke: 60 visits in 0:\d\d:\d\d of simulated time", done.stdout)
    for word in ("learnt", "cost", "reached", "runs/smoke"):
        assert word in done.stdout
    files = {p.name for p in (tmp_path / "runs/smoke").iterdir()}
    tables = {f"{name}.parquet" for name in ("contacts", "clients", "track", "graph", "meetings")}
    assert files == tables | {"scenario.toml", "manifest.json", "summary.json", "models"}
    manifest = json.loads((tmp_path / "runs/smoke/manifest.json").read_text())
    assert manifest["finished"] is True
    assert manifest["versions"]["torch"].startswith("2.")
    again = fedmule("run", "smoke", "--quiet", cwd=tmp_path)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert (tmp_path / "runs/smoke-2/summary.json").exists()


def test_a_name_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "desk").mkdir()
    arguments = ["run", "smoke", "--quiet", "--set", "stop.visits=1", "--set", 'name="../../up"']
    assert fedmule(*arguments, cwd=tmp_path / "desk").returncode == 0
    assert [p.name for p in (tmp_path / "desk/runs").iterdir()] == ["up"]


def test_plain_lines_off_a_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: object) -> None:
    monkeypatch.setattr("fedmule.simulator.runs.progress.LINE_EVERY_S", 0.0)
    monkeypatch.chdir(tmp_path)
    assert main(["run", "smoke", "--set", "stop.visits=5"]) == 0
    printed = capfd.readouterr().err  # type: ignore[attr-defined]
    assert re.search(r" 40%  2 visits, \d:\d\d:\d\d simulated, accuracy \d+\.\d%, \d+\.\d kB\n", printed)
    assert "\r" not in printed


def test_a_bar_on_a_terminal(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty", reason="needs a Unix terminal")
    termios = pytest.importorskip("termios", reason="needs a Unix terminal")
    leader, follower = pty.openpty()
    termios.tcsetwinsize(leader, (40, 120))
    command = [sys.executable, "-m", "fedmule", "run", "smoke", "--out", "run"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=follower)
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(leader)
    assert process.wait() == 0
    assert b"60/60" in shown
    assert b"simulated, accuracy" in shown


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_cleanly(tmp_path: Path, stop: signal.Signals) -> None:
    process = start("run", "smoke", "--out", "run", *LONG, cwd=tmp_path)
    wait_for_visits(tmp_path / "run", 1)
    process.send_signal(stop)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "interrupted" in out
    assert "Traceback" not in err
    run = load_run(tmp_path / "run")
    assert (run.finished, run.summary["stopped_by"]) == (False, "interrupted")
    assert len(run.contacts) == run.summary["contacts"] > 0
    assert not list((tmp_path / "run").glob("*.arrows"))


def test_a_killed_run_can_be_read(tmp_path: Path) -> None:
    process = start("run", "smoke", "--out", "run", *LONG, cwd=tmp_path)
    wait_for_visits(tmp_path / "run", 20)
    process.kill()
    process.wait()
    run = load_run(tmp_path / "run")
    assert not run.finished
    assert run.summary == {}
    assert list(run.contacts["contact"]) == list(range(1, len(run.contacts) + 1))
    assert len(run.contacts) >= 20
    assert len(run.track) > 0


def test_a_stream_cut_anywhere_can_be_read(tmp_path: Path) -> None:
    process = start("run", "smoke", "--out", "run", *LONG, cwd=tmp_path)
    wait_for_visits(tmp_path / "run", 1)
    process.kill()
    process.wait()
    stream = tmp_path / "run/contacts.arrows"
    complete = stream.read_bytes()
    rows = []
    for share in (0.0, 0.1, 0.5, 0.9, 0.99, 1.0):
        stream.write_bytes(complete[: int(share * len(complete))])
        rows.append(len(load_run(tmp_path / "run").contacts))
    assert rows == sorted(rows)
    assert rows[-1] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nowhere.toml"], "nowhere.toml: no such file"),
        (["run", "smoke", "--out", "file/run"], "cannot write the run there"),
        (["run", "smoke", "--out", "full"], "is not empty; choose another folder"),
        (["run", "smoke", "--set", "clients.count=0"], "--set: clients.count = 0: must be at least 1"),
        (["run", "smoke", "--set", "vehicle.start=[190, 130]"], "lies in an obstacle"),
        (["run", "smoke", "--set", 'clients.mobility.kind="os:system"'], "--allow-plugins"),
        (["run", "smoke", "--seed", "x"], "must be a whole number"),
        (["check", "smoke", "binary.toml", "nowhere"], "binary.toml: not a text file"),
        (["check"], "name at least one SCENARIO"),
        (["check", "smoke", "--set", "vehicle.start=[190, 130]"], "lies in an obstacle"),
        (["dance"], "no such command"),
        (["data", "mnist", "--from", "full"], "holds no train-images-idx3-ubyte"),
        (["data", "nmist"], "must be one of digits, sonar, mnist, fashion_mnist, cifar10, watch"),
        (["data", "synthetic", "--partition", "dirchlet"], "did you mean dirichlet?"),
        (["run", "smoke", "--set", "learning.dataset=mnist"], "run `fedmule data mnist` first"),
        (["run", "smoke", "--set", 'learning.dataset={kind="file", path="none.csv"}'], "none.csv: no such file"),
        (
            ["run", "smoke", "--set", "learning.partition.labels=11", "--set", "learning.partition.kind=labels"],
            "only 10",
        ),
    ],
)
def test_bad_input_is_explained_with_status_2_and_nothing_is_lost(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "file").write_text("precious")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/precious").write_text("precious")
    (tmp_path / "binary.toml").write_bytes(bytes([0xFF, 0x00, 0x80]))
    done = fedmule(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert {p.name for p in tmp_path.iterdir()} == {"file", "full", "binary.toml"}
    assert (tmp_path / "full/precious").read_text() == (tmp_path / "file").read_text() == "precious"


def test_a_partition_is_drawn(tmp_path: Path) -> None:
    done = fedmule("data", "synthetic", "--partition", "{ kind = 'labels', labels = 3 }", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "20 clients" in done.stdout
    assert "3 to 3 labels each" in done.stdout
    assert (tmp_path / "synthetic-labels.png").stat().st_size > 5000


def test_a_finished_run_is_never_overwritten(tmp_path: Path) -> None:
    arguments = ["run", "smoke", "--out", "run", "--quiet", "--set", "stop.visits=2"]
    assert fedmule(*arguments, cwd=tmp_path).returncode == 0
    before = {p.name: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}
    done = fedmule(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "holds a run already" in done.stderr
    assert {p.name: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()} == before


def test_a_run_folder_runs_again_to_the_same_end(tmp_path: Path) -> None:
    assert fedmule("run", "smoke", "--seed", "3", "--out", "a", "--quiet", cwd=tmp_path).returncode == 0
    assert fedmule("run", "a", "--out", "b", "--quiet", cwd=tmp_path).returncode == 0
    a, b = (load_run(tmp_path / name).contacts.drop(columns="host_time_s") for name in ("a", "b"))
    assert a.equals(b)


def test_check_says_ok(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "smoke", "warzone"]) == 0
    assert capsys.readouterr().out == "smoke: ok\nwarzone: ok\n"
