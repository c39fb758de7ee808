"""Workers compute the runs of a batch: here in processes on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any, Protocol

from fedmule.simulator.errors import UserError
from fedmule.simulator.runs.folder import is_done, read_manifest
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.studies.plan import Point

Report = Callable[[Path, str | None], None]  # called with a run's folder, and what went wrong if anything did


class Workers(Protocol):
    """Compute points."""

    def run(self, points: Mapping[Path, Point], alone: bool, report: Report) -> list[Path]:
        """Run points into their folders and report each; returns those that were lost because a process died.

        If `alone`, only one run is under way at a time.
        """
        ...


class Processes:
    """Processes on this machine, one thread each; where runs use GPUs, one process for each GPU."""

    def __init__(self, jobs: int | None = None) -> None:
        self._jobs = jobs or os.cpu_count() or 1

    def run(self, points: Mapping[Path, Point], alone: bool, report: Report) -> list[Path]:
        """Run points in a pool of processes; returns those that were lost because a process died."""
        context, broken, others = get_context("spawn"), [], set(active_children())
        devices = context.SimpleQueue()
        gpus = gpus_for(point.scenario for point in points.values())
        for gpu in gpus:
            devices.put(gpu)
        jobs = 1 if alone else min(self._jobs, len(points), len(gpus) or len(points))
        started = (devices if gpus else None,)
        with _one_thread_each(), ProcessPoolExecutor(jobs, context, _begin_worker, started) as pool:
            try:
                futures = {pool.submit(run_point, point, folder): folder for folder, point in points.items()}
                for future in as_completed(futures):
                    try:
                        report(futures[future], future.result())
                    except BrokenProcessPool:
                        broken.append(futures[future])
            except BaseException:  # such as Ctrl-C: abandon the runs under way
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in set(active_children()) - others:
                    worker.kill()
                raise
        return broken


def gpus_for(scenarios: Iterable[Scenario]) -> list[str]:
    """The GPUs to distribute processes over, as CUDA_VISIBLE_DEVICES names them; none if no run can use one."""
    wanted = any(scenario.learning.device != "cpu" for scenario in scenarios)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not wanted or visible == "" or not (shutil.which("nvidia-smi") or Path("/dev/nvidiactl").exists()):
        return []  # saves the seconds it takes to import torch
    import torch

    named = visible.split(",") if visible else [str(i) for i in range(torch.cuda.device_count())]
    return named[: torch.cuda.device_count()]


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Limit processes started within to one thread each: with more they would slow each other down."""
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


# --- in the workers ------------------------------------------------------------------------------------------


def _begin_worker(devices: Any) -> None:
    """Leave Ctrl-C to the parent, end with it, and take a GPU from the queue if there is one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if devices is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = devices.get()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def run_point(point: Point, folder: Path) -> str | None:
    """Run a point beside its folder and move it there once it is complete; returns what went wrong, if anything."""
    from fedmule.simulator.runs.run import run_scenario  # heavy, and only workers need it
    from fedmule.simulator.scenario.plugins import load_plugins

    scenario, partial = point.scenario, _beside(folder)
    partial.mkdir(parents=True)
    try:
        plugins = load_plugins(scenario, point.plugin_folders is not None, point.plugin_folders or ())
        run_scenario(scenario, str(partial), plugins, interruptible=False, keep_models=False)
        _replace(folder, partial)
        return None
    except UserError as error:
        return str(error).removeprefix(f"{scenario.name}: ")
    except Exception:
        return traceback.format_exc()
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _replace(folder: Path, complete: Path) -> None:
    """Put a complete run where another program's may be, unless a worker believed dead has done the same meanwhile."""
    if is_done(folder) and read_manifest(folder).get("identity") == read_manifest(complete).get("identity"):
        return
    old = _beside(folder)
    with suppress(FileNotFoundError):
        folder.rename(old)
    complete.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _beside(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.partial-{uuid.uuid4().hex[:8]}")


def partials(folder: Path) -> list[Path]:
    """The folders of runs of a point that are under way, or did not complete."""
    return list(folder.parent.glob(f"{folder.name}.partial-*"))
