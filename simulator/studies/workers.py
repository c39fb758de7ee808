"""Where the runs of a batch are computed: processes of this machine, or a Dask cluster."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import traceback
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any, Protocol

from fedmule.simulator.errors import UserError
from fedmule.simulator.runs.folder import is_done, read_manifest
from fedmule.simulator.runs.identity import program_differences, program_on_disk, this_program
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.studies.plan import Point

Report = Callable[[Path, str | None], None]  # called with a run's folder, and what went wrong if anything did

WAIT_S = 300  # for a cluster's first worker
CONNECT_S = 15


class Workers(Protocol):
    """Compute points."""

    def run(self, points: Mapping[Path, Point], alone: bool, report: Report) -> list[Path]:
        """Run points into their folders and report each; returns those that were lost because a process died.

        If `alone`, only one run is under way at a time.
        """
        ...


@contextmanager
def workers_for(address: str | None, jobs: int | None, out: Path) -> Iterator[Workers]:
    """The cluster at an address, or processes on this machine; results go to the folder `out`."""
    if address is None:
        yield Processes(jobs)
    else:
        with closing(Cluster(address, out)) as cluster:
            yield cluster


# --- processes on this machine -------------------------------------------------------------------------------


class Processes:
    """Processes on this machine, one thread each; where runs use GPUs, one process for each GPU."""

    def __init__(self, jobs: int | None = None) -> None:
        self._jobs = jobs or os.cpu_count() or 1

    def run(self, points: Mapping[Path, Point], alone: bool, report: Report) -> list[Path]:
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


# --- a cluster -----------------------------------------------------------------------------------------------


class Cluster:
    """A Dask cluster, by its scheduler's address. It retries the runs of workers that die by itself."""

    def __init__(self, address: str, out: Path) -> None:
        try:
            from distributed import Client
        except ModuleNotFoundError:
            raise UserError('--engine needs Dask: pip install "fedmule[study]"') from None
        try:
            connect: Any = Client  # Dask has no type annotations
            self._client = connect(address, timeout=CONNECT_S, name="fedmule", set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise UserError(f"--engine {address}: no Dask scheduler answers there: {error}") from None
        self._address = address
        self._out = out.resolve()

    def close(self) -> None:
        self._client.close()

    def run(self, points: Mapping[Path, Point], alone: bool, report: Report) -> list[Path]:
        home = Home(program_on_disk(), self._out)
        self._check(home, any(point.scenario.learning.device != "cpu" for point in points.values()))
        executor = self._client.get_executor()
        futures = {
            executor.submit(_run_remote, point, folder.resolve(), home): folder for folder, point in points.items()
        }
        try:
            for future in as_completed(futures):
                try:
                    report(futures[future], future.result())
                except CancelledError:
                    report(futures[future], f"the cluster at {self._address} cancelled it")
                except Exception as error:  # a worker that keeps dying, or cannot read what it was sent
                    report(futures[future], f"{type(error).__name__}: {error}")
        except BaseException:
            for future in futures:
                future.cancel()
            raise
        return []

    def _check(self, home: Home, on_gpus: bool) -> None:
        """Check that every worker has this program, sees the folder, and computes one run at a time on its own GPU."""
        if not self._client.nthreads():
            sys.stderr.write(f"waiting for a worker at {self._address}\n")
            try:
                self._client.wait_for_workers(1, timeout=WAIT_S)
            except TimeoutError:
                raise UserError(f"--engine {self._address}: no worker joined within {WAIT_S} s") from None
        with _marked(self._out):
            answers = self._client.run(about_worker, home, on_error="return")
        problems = problems_of_workers(answers, self._client.nthreads(), on_gpus)
        if problems:
            raise UserError("\n".join(f"--engine {self._address}: {problem}" for problem in problems))


@dataclass(frozen=True)
class Home:
    """What a worker must share with the machine that started the study."""

    program: Mapping[str, str]
    out: Path

    def problem(self) -> str | None:
        """What prevents the worker of this process from running points, if anything does."""
        if changes := program_differences(self.program, this_program()):
            return f"has another version of Fedmule; install the same one everywhere ({'; '.join(changes)})"
        if not self.out.is_dir():
            return f"cannot see the folder {self.out}; it must be on a disk that all machines share"
        return None


@contextmanager
def _marked(out: Path) -> Iterator[None]:
    """Put a file into the folder, by which workers recognise it."""
    out.mkdir(parents=True, exist_ok=True)
    mark = out / ".shared"
    mark.touch()
    try:
        yield
    finally:
        mark.unlink()


def about_worker(home: Home) -> dict[str, Any]:
    """On a worker: its problem, if it has one, and the GPU it would use, as (host, GPU)."""
    import platform

    import torch

    problem = home.problem()
    if problem is None and not (home.out / ".shared").exists():
        problem = f"sees another folder {home.out} than this machine; it must be on a disk that all machines share"
    count = torch.cuda.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",")[:count] if visible else [str(i) for i in range(count)]
    return {"problem": problem, "gpus": [(platform.node(), name) for name in names[:1]]}  # a run uses the first


def problems_of_workers(answers: Mapping[str, Any], threads: Mapping[str, int], on_gpus: bool) -> list[str]:
    """What prevents a study on these workers: their answers to `about_worker`, and how many threads each has."""
    found = []
    for name, answer in answers.items():
        problem = _problem_of(answer, threads.get(name, 1))
        if problem is not None:
            found.append(f"worker {name} {problem}")
    if on_gpus:
        seats = Counter(seat for answer in answers.values() if isinstance(answer, dict) for seat in answer["gpus"])
        found += [
            f"{count} workers share GPU {gpu} of {host}; give each its own with CUDA_VISIBLE_DEVICES"
            for (host, gpu), count in seats.items()
            if count > 1
        ]
    return found


def _problem_of(answer: Any, threads: int) -> str | None:
    """The problem that a worker's answer, or its failure to answer, shows."""
    if isinstance(answer, ModuleNotFoundError):
        return f"has no Fedmule, or another version: {answer}"
    if isinstance(answer, BaseException):
        return f"cannot be used: {type(answer).__name__}: {answer}"
    if threads > 1:
        return f"computes {threads} tasks at a time; start more workers with --nthreads 1 instead"
    problem: str | None = answer["problem"]
    return problem


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


def _run_remote(point: Point, folder: Path, home: Home) -> str | None:
    """On a cluster's worker, which may have joined after the study began and so has not been checked."""
    problem = home.problem()
    return f"a worker {problem}" if problem else run_point(point, folder)


def run_point(point: Point, folder: Path) -> str | None:
    """Run a point beside its folder and move it there once it is complete; returns what went wrong, if anything."""
    from fedmule.simulator.runs.run import run_scenario  # heavy, and only workers need it
    from fedmule.simulator.scenario.plugins import load_plugins

    scenario, partial = point.scenario, _beside(folder)
    partial.mkdir(parents=True)
    try:
        plugins = load_plugins(scenario, point.plugin_folders is not None, point.plugin_folders or ())
        run_scenario(scenario, str(partial), plugins, interruptible=False)
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
