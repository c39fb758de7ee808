"""Many runs side by side: skipped, killed, failed, interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from short_runs import heed_ctrl_c

from fedmule.analysis import load_study
from fedmule.simulator.runs.folder import is_done
from fedmule.simulator.runs.identity import identity_of
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.studies import index, workers
from fedmule.simulator.studies.batch import run_batch
from fedmule.simulator.studies.plan import Point
from fedmule.simulator.studies.workers import Processes

Small = Callable[..., Scenario]


def run_folder(out: Path, scenario: Scenario) -> Path:
    """As runs/ of a study has it, but in `out` itself."""
    return out / index.run_folder(out, scenario).name


def batch(scenarios: list[Scenario], out: Path, jobs: int) -> list[tuple[Scenario, str]]:
    """Run scenarios in `out`; returns those that failed, with their errors."""
    points = {run_folder(out, s): Point(s, "small", {}, s.seed) for s in scenarios}
    failures: dict[Path, str] = {}
    identities = {folder: identity_of(point.scenario) for folder, point in points.items()}
    run_batch(points, identities, failures, Processes(jobs), quiet=True)
    return [(points[folder].scenario, error) for folder, error in failures.items()]


def finish(folder: Path, scenario: Scenario) -> None:
    """Leave a run behind as if it had been made, complete or not at all."""
    apart = folder.parent.with_name(f"{folder.parent.name}-{folder.name}")
    apart.mkdir(parents=True, exist_ok=True)
    (apart / "manifest.json").write_text(json.dumps({"identity": identity_of(scenario).as_dict()}))
    (apart / "summary.json").write_text('{"finished": true}')
    folder.parent.mkdir(exist_ok=True)
    apart.rename(folder)


def dies_once_or_always(point: Point, folder: Path) -> str | None:
    """A stand-in for a run: seed 1 kills its process the first time, seed 2 every time; others are done at once."""
    begun = folder.with_name(f"{folder.name}.partial-1")
    begun.mkdir(parents=True, exist_ok=True)
    times = folder.with_name(f"{folder.name}.times")
    times.open("a").write("x")
    if point.scenario.seed == 2 or (point.scenario.seed == 1 and times.read_text() == "x"):
        os.kill(os.getpid(), signal.SIGKILL)
    finish(folder, point.scenario)
    begun.rmdir()  # last, as in a real run: if its process is killed before, it was under way
    return None


def test_done_points_are_skipped_unfinished_ones_run_again_and_failures_do_not_stop_the_rest(
    small: Small, tmp_path: Path
) -> None:
    done, unfinished, left_over = (small(seed=seed, stop={"visits": 3}) for seed in range(3))
    bad = small(learning={"dataset": {"kind": "file", "path": "none.csv"}})
    finish(run_folder(tmp_path, done), done)
    run_folder(tmp_path, unfinished).mkdir()
    (run_folder(tmp_path, unfinished) / "summary.json").write_text('{"finished": false}')
    (tmp_path / f"{run_folder(tmp_path, left_over).name}.partial-1").mkdir()
    (tmp_path / f"{run_folder(tmp_path, left_over).name}.partial-1/contacts.arrows").write_text("cut off")

    [(failed, error)] = batch([done, unfinished, bad, left_over, left_over], tmp_path, 1)

    assert failed == bad
    assert error.startswith("learning.dataset")
    assert error.endswith("none.csv: no such file")
    as_it_was = ["manifest.json", "summary.json"]
    assert sorted(file.name for file in run_folder(tmp_path, done).iterdir()) == as_it_was
    assert sorted(tmp_path.iterdir()) == sorted(run_folder(tmp_path, s) for s in (done, unfinished, left_over))
    for scenario in (unfinished, left_over):
        summary = json.loads((run_folder(tmp_path, scenario) / "summary.json").read_text())
        assert (summary["finished"], summary["visits"], summary["seed"]) == (True, 3, scenario.seed)


def test_a_killed_process_costs_a_retry_and_one_that_always_dies_takes_nothing_with_it(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "run_point", dies_once_or_always)
    points = [small(seed=seed) for seed in range(6)]
    [(failed, error)] = batch(points, tmp_path, 2)
    assert failed.seed == 2
    assert "its process died 3 times" in error
    assert all(is_done(run_folder(tmp_path, point)) for point in points if point.seed != 2)
    tries = [len((tmp_path / f"{run_folder(tmp_path, point).name}.times").read_text()) for point in points]
    assert tries[2] == 3
    assert max(tries) == 3
    assert not list(tmp_path.glob("*.partial-*"))


def notes_its_gpu(point: Point, folder: Path) -> str | None:
    """A stand-in for a run: notes which GPU its process may use, and waits until another process is at work too."""
    (folder.parent / f"{os.getpid()}.at-work").touch()
    until(lambda: len(list(folder.parent.glob("*.at-work"))) > 1)
    finish(folder, point.scenario)
    (folder / "gpu").write_text(f"{os.environ['CUDA_VISIBLE_DEVICES']} {os.getpid()}")
    return None


def test_every_process_has_a_gpu_of_its_own(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "run_point", notes_its_gpu)
    monkeypatch.setattr(workers, "gpus_for", lambda scenarios: ["4", "7"])
    assert batch([small(seed=seed) for seed in range(8)], tmp_path, 5) == []
    seen = {tuple(file.read_text().split()) for file in tmp_path.glob("*/gpu")}
    assert {gpu for gpu, _ in seen} == {"4", "7"}
    assert len({process for _, process in seen}) == len(seen) == 2  # as many processes as GPUs, each with its own


def test_the_folder_is_the_scenarios_own(small: Small, tmp_path: Path) -> None:
    assert run_folder(tmp_path, small()) == run_folder(tmp_path, small())
    others = [small(seed=1), small(learning={"step_size": 2.0}), small(name="other")]
    names = {run_folder(tmp_path, scenario).name for scenario in [small(), *others]}
    assert len(names) == 4
    assert all(len(name) == 16 for name in names)


def takes_long(point: Point, folder: Path) -> str | None:
    """A stand-in for a run: seed 0 is done at once, others take very long."""
    if point.scenario.seed:
        folder.with_name(f"{folder.name}.partial-1").mkdir(parents=True)
        time.sleep(1200)
    finish(folder, point.scenario)
    return None


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def complete(runs: Path) -> list[Path]:
    """Return the complete runs; a run that is about to be has its summary in a partial folder."""
    return [file.parent for file in runs.glob("*/summary.json") if ".partial-" not in file.parent.name]


def test_ctrl_c_keeps_what_is_done_and_ends_cleanly(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(
        """
        title = "A short and a long one"
        seeds = 1
        rows = [{ cell = "smoke", scenario = "smoke" }]
        columns = [{ name = "short", set = { "stop.visits" = 1 } }, { name = "long", set = { "stop.visits" = 99999 } }]
        """
    )
    command = [sys.executable, "-m", "fedmule", "paper", "two.toml", "--jobs", "1"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True, preexec_fn=heed_ctrl_c)
    runs = tmp_path / "paper/two/runs"
    until(lambda: complete(runs) and list(runs.glob("*.partial-*/contacts.arrows")))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert [folder.name for folder in runs.iterdir()] == [folder.parent.name for folder in runs.glob("*/summary.json")]
    assert list(load_study(tmp_path / "paper/two").index["status"]) == ["learnt nothing", "missing"]


def test_workers_do_not_outlive_a_killed_batch(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a separate process, which is killed; the pipe it shares with its workers closes when all are gone."""
    script = """if __name__ == "__main__":
        import sys; from pathlib import Path
        import test_batch; from fedmule.simulator.studies import workers
        from fedmule.simulator.scenario import Scenario
        workers.run_point = test_batch.takes_long
        test_batch.batch([Scenario(seed=0), Scenario(seed=1)], Path(sys.argv[1]), 2)
    """
    (tmp_path / "script.py").write_text(script)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "runs")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    until(lambda: len(list((tmp_path / "runs").glob("*"))) == 2)
    process.kill()
    process.communicate(timeout=600)
    assert [is_done(run_folder(tmp_path / "runs", Scenario(seed=seed))) for seed in (0, 1)] == [True, False]
