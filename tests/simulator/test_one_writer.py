"""Two processes never write to one folder, and the lock of one that died is free."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fedmule.simulator.cli import main
from fedmule.simulator.errors import UserError
from fedmule.simulator.runs.lock import NAME, FolderLock

HOLD = "import sys, pathlib; from fedmule.simulator.runs.lock import FolderLock; FolderLock(pathlib.Path(sys.argv[1]))"
TRY = """
import sys, pathlib, time
from fedmule.simulator.errors import UserError
from fedmule.simulator.runs.lock import FolderLock
folder, count = pathlib.Path(sys.argv[1]), 0
end = time.monotonic() + 3
while time.monotonic() < end:
    try:
        with FolderLock(folder):
            (folder / "alone").touch(exist_ok=False)  # raises if another is in here
            (folder / "alone").unlink()
            count += 1
    except UserError:
        pass
print(count)
"""


def test_the_holder_is_named(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD + "; print('held', flush=True); input()", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(UserError, match=rf"is being written by another process \(process {holder.pid} on "):
        FolderLock(tmp_path)
    holder.kill()
    holder.wait()
    with FolderLock(tmp_path):  # that of a dead process is free
        assert re.fullmatch(rf"process {os.getpid()} on .*", (tmp_path / NAME).read_text())
    assert not (tmp_path / NAME).exists()


def test_never_two_at_once(tmp_path: Path) -> None:
    """Three processes take and release the lock as fast as they can."""
    command = [sys.executable, "-c", TRY, str(tmp_path)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:
        out, err = process.communicate(timeout=600)
        assert not err
        assert int(out) > 0


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / "folder" / NAME).symlink_to(tmp_path / "theirs")
    with pytest.raises(OSError, match="symbolic links"):
        FolderLock(tmp_path / "folder")
    assert (tmp_path / "theirs").read_text() == "theirs"


@pytest.mark.parametrize(
    ("command", "folder"),
    [
        (["study", "smoke", "--vary", "stop.visits=1,2", "--seeds", "1", "--jobs", "1", "--out", "f"], "f"),
        (["compare", "smoke", "--set", "stop.visits=1", "--seeds", "1", "--jobs", "1", "--out", "f"], "f"),
        (["paper", "e.toml", "--jobs", "1", "--out", "f"], "f/e"),
        (["run", "smoke", "--set", "stop.visits=1", "--out", "f"], "f"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_studies_experiments_and_runs_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str], folder: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.toml").write_text(
        'title = "t"\nseeds = 1\nrows = [{ cell = "c", scenario = "smoke" }]\n'
        'columns = [{ name = "d", set = { "stop.visits" = 1 } }]\n'
    )
    Path(folder).mkdir(parents=True)
    with FolderLock(Path(folder)):
        assert main(command) == 2
        assert "is being written by another process" in capsys.readouterr().err
        assert [path.name for path in Path(folder).iterdir()] == [NAME]
    assert main(command) == 0
    assert not list(tmp_path.rglob(NAME))
