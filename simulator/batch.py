"""Many runs side by side: each in a folder named after its scenario; done ones are skipped, failures collected."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path

from simulator.errors import UserError
from simulator.load import to_toml
from simulator.progress import points_progress
from simulator.scenario import Scenario

RETRIES = 2  # of a point whose process died


@dataclass(frozen=True)
class Failure:
    """A point that could not be run."""

    scenario: Scenario
    error: str


def run_folder(root: Path, scenario: Scenario) -> Path:
    """Where the run of a scenario lies: the resolved scenario's hash is its name."""
    return root / hashlib.sha256(to_toml(scenario).encode()).hexdigest()[:16]


def is_done(folder: Path) -> bool:
    """Whether a run folder is there and whole."""
    try:
        return bool(json.loads((folder / "summary.json").read_text(encoding="utf-8"))["finished"])
    except (OSError, ValueError, KeyError):
        return False


def run_batch(scenarios: Iterable[Scenario], root: Path, jobs: int | None = None, quiet: bool = False) -> list[Failure]:
    """Run every scenario that is not done yet, in processes side by side; returns what failed.

    A point under way when a process dies is tried again, the last time with nobody beside it, so that a point that
    kills its process takes no other down. Ctrl-C ends at once and keeps what is done.
    """
    points = {run_folder(root, scenario): scenario for scenario in scenarios}
    todo = {folder: scenario for folder, scenario in points.items() if not is_done(folder)}
    died: Counter[Path] = Counter()
    failures: dict[Path, str] = {}
    progress = points_progress(quiet or not todo, len(points), len(points) - len(todo))

    def tell(folder: Path, error: str | None) -> None:
        if error is not None:
            failures[folder] = error
        progress(len(failures))

    try:
        while todo:
            together = {folder: scenario for folder, scenario in todo.items() if died[folder] < RETRIES}
            group = together or dict([todo.popitem()])
            _clear(group)
            broken = _run_pool(group, (jobs or os.cpu_count() or 1) if together else 1, tell)
            under_way = [folder for folder in broken if _partial(folder).exists()]
            died.update(under_way or broken)
            for folder in broken:
                if died[folder] > RETRIES:
                    tell(folder, f"its process died {died[folder]} times (was memory short?)")
            todo = {f: s for f, s in points.items() if f not in failures and not is_done(f)}
    finally:
        progress.close()
        _clear(points)
    return [Failure(points[folder], error) for folder, error in failures.items()]


def _run_pool(points: dict[Path, Scenario], jobs: int, tell: Callable[[Path, str | None], None]) -> list[Path]:
    """Run points side by side; returns those that were not done when a process died."""
    broken = []
    others = set(active_children())
    with _one_thread_each(), ProcessPoolExecutor(min(jobs, len(points)), get_context("spawn"), _begin_worker) as pool:
        try:
            futures = {pool.submit(_run_point, scenario, folder): folder for folder, scenario in points.items()}
            for future in as_completed(futures):
                try:
                    tell(futures[future], future.result())
                except BrokenProcessPool:
                    broken.append(futures[future])
        except BaseException:  # Ctrl-C: what is under way is given up
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in set(active_children()) - others:
                worker.kill()
            raise
    return broken


def _clear(folders: Iterable[Path]) -> None:
    """Remove what runs left behind that did not come to their end."""
    for folder in folders:
        shutil.rmtree(_partial(folder), ignore_errors=True)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started meanwhile compute with one thread each: more would be in each other's way."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


# --- in the worker processes ---------------------------------------------------------------------------------


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, and do not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_point(scenario: Scenario, folder: Path) -> str | None:
    """Run a scenario beside its folder and move it there when it is whole; returns what went wrong, if anything."""
    from simulator.run import run_scenario  # heavy, and only workers need it

    partial = _partial(folder)
    partial.mkdir(parents=True)
    try:
        run_scenario(scenario, str(partial), interruptible=False)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
        return None
    except UserError as error:
        return str(error).removeprefix(f"{scenario.name}: ")
    except Exception:
        return traceback.format_exc()
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _partial(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.partial")
