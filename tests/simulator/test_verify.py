"""fedmule verify sees whatever has changed in a run's folder, and that a run made again is the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedmule.simulator import api
from fedmule.simulator.cli import main
from fedmule.simulator.runs.machine import commit_of

SHORT = {"stop.visits": 8, "learning.evaluate_every": 4}


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return api.run("smoke", SHORT, out="run", quiet=True).folder


def verified(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["verify", *arguments])
    return status, capsys.readouterr().out


def test_a_byte_changed_anywhere_is_seen(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verified(capsys, "run") == (0, "run: ok\n")
    draws = np.random.default_rng(0)
    files = [file for file in kept.rglob("*") if file.is_file() and file.name != "manifest.json"]
    assert {"contacts.parquet", "scenario.toml", "summary.json", "clients.safetensors"} <= {file.name for file in files}
    for file in files:
        whole = file.read_bytes()
        for at in {0, len(whole) - 2, *draws.integers(0, len(whole) - 1, 6).tolist()}:
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            status, said = verified(capsys, "run")
            assert (status, "run: ok" in said) == (1, False), (file.name, at, said)
        file.write_bytes(whole)
    assert verified(capsys, "run") == (0, "run: ok\n")


def test_what_has_changed_is_named(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.read_parquet(kept / "contacts.parquet")
    table.loc[2, "airtime_s"] += 1
    table.to_parquet(kept / "contacts.parquet", index=False)
    assert "contacts:airtime_s has changed" in verified(capsys, "run")[1]
    (kept / "contacts.parquet").unlink()
    assert "cannot be read" in verified(capsys, "run")[1]


def test_the_same_run_again_has_the_same_results(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verified(capsys, "run", "--rerun") == (0, "run: ok\n")
    manifest = json.loads((kept / "manifest.json").read_text())
    other = api.run("smoke", {**SHORT, "seed": 1}, out="other", quiet=True).folder
    for name in ("contacts.parquet", "clients.parquet", "track.parquet", "graph.parquet", "summary.json"):
        shutil.copy(other / name, kept / name)  # results of another seed, with digests that fit them
    theirs = json.loads((other / "manifest.json").read_text())["digests"]
    manifest["digests"] = {**manifest["digests"], **{k: v for k, v in theirs.items() if not k.startswith("models")}}
    manifest["digests"]["scenario.toml"] = json.loads((kept / "manifest.json").read_text())["digests"]["scenario.toml"]
    manifest["threads"] = 99
    (kept / "manifest.json").write_text(json.dumps(manifest))
    status, said = verified(capsys, "run", "--rerun")
    assert status == 1
    assert "runs again with other results: contacts:" in said
    assert "threads was 99, and is " in said


def test_a_study_is_verified_run_by_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    study = api.study("smoke", {"stop.visits": [2, 3]}, seeds=1, out="s", quiet=True, jobs=1)
    assert verified(capsys, "s")[0] == 0
    first = study.folder / study.done["run"].iloc[0]
    (first / "summary.json").write_text("{}")
    status, said = verified(capsys, "s")
    assert status == 1
    assert [line.endswith(": ok") for line in said.splitlines()] == [False, True]


@pytest.mark.parametrize("folder", ["nowhere", "empty"])
def test_what_is_no_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    assert main(["verify", folder]) == 2
    assert "is not the folder of a run or of a study" in capsys.readouterr().err


def test_the_commit_of_a_checkout(tmp_path: Path) -> None:
    git = tmp_path / ".git"
    assert commit_of(tmp_path) is None
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    assert commit_of(tmp_path) is None
    (git / "packed-refs").write_text("# pack-refs\n1111 refs/heads/other\n2222 refs/heads/main\n")
    assert commit_of(tmp_path) == "2222"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "refs" / "heads" / "main").write_text("3333\n")
    assert commit_of(tmp_path) == "3333"
    (git / "HEAD").write_text("4444\n")
    assert commit_of(tmp_path) == "4444"
