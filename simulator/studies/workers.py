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
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any, Protocol

from fedmule.simulator.errors import UserError
from fedmule.simulator.runs.folder import is_done
from fedmule.simulator.scenario import Scenario

Tell = Callable[[Path, str | None], None]  # a folder's run is done, or what went wrong with it

WAIT_S = 300  # for a cluster's first worker
CONNECT_S = 15


@dataclass(frozen=True)
class Point:
    """A run to be made."""

    scenario: Scenario
    plugin_folders: tuple[Path, ...] | None = None  # where classes of the user's own lie; None: they are not allowed


class Engine(Protocol):
    """Computes points, one after the other if `alone`, and tells of each; returns those lost as a process died."""

    def run(self, points: Mapping[Path, Point], alone: bool, tell: Tell) -> list[Path]: ...


@contextmanager
def engine_for(address: str | None, jobs: int | None, root: Path) -> Iterator[Engine]:
    """The cluster at an address, or processes here."""
    if address is None:
        yield Processes(jobs)
    else:
        with closing(Cluster(address, root)) as cluster:
            yield cluster


# --- processes here ------------------------------------------------------------------------------------------


class Processes:
    """Processes of this machine, one thread each; where runs use GPUs, one process for each GPU."""

    def __init__(self, jobs: int | None = None) -> None:
        self._jobs = jobs or os.cpu_count() or 1

    def run(self, points: Mapping[Path, Point], alone: bool, tell: Tell) -> list[Path]:
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
                        tell(futures[future], future.result())
                    except BrokenProcessPool:
                        broken.append(futures[future])
            except BaseException:  # Ctrl-C: what is under way is given up
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in set(active_children()) - others:
                    worker.kill()
                raise
        return broken


def gpus_for(scenarios: Iterable[Scenario]) -> list[str]:
    """The GPUs that processes are shared out over, as CUDA_VISIBLE_DEVICES names them; none if no run wants one."""
    wanted = any(scenario.learning.device != "cpu" for scenario in scenarios)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not wanted or visible == "" or not (shutil.which("nvidia-smi") or Path("/dev/nvidiactl").exists()):
        return []  # without the seconds that asking torch takes
    import torch

    named = visible.split(",") if visible else [str(i) for i in range(torch.cuda.device_count())]
    return named[: torch.cuda.device_count()]


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


# --- a cluster -----------------------------------------------------------------------------------------------


class Cluster:
    """A Dask cluster by its scheduler's address. Workers that die cost a retry; the cluster itself sees to that."""

    def __init__(self, address: str, root: Path) -> None:
        try:
            from distributed import Client
        except ModuleNotFoundError:
            raise UserError('--engine needs Dask: pip install "fedmule[study]"') from None
        try:
            self._client = Client(address, timeout=CONNECT_S, name="fedmule", set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise UserError(f"--engine {address}: no Dask scheduler answers there: {error}") from None
        self._address = address
        self._root = root.resolve()

    def close(self) -> None:
        self._client.close()

    def run(self, points: Mapping[Path, Point], alone: bool, tell: Tell) -> list[Path]:
        home = Home(digest_of_program(), self._root)
        self._check(home, any(point.scenario.learning.device != "cpu" for point in points.values()))
        executor = self._client.get_executor()
        futures = {
            executor.submit(_run_remote, point, folder.resolve(), home): folder for folder, point in points.items()
        }
        try:
            for future in as_completed(futures):
                try:
                    tell(futures[future], future.result())
                except CancelledError:
                    tell(futures[future], f"the cluster at {self._address} gave it up")
                except Exception as error:  # a worker that keeps dying, or that cannot even read what is sent to it
                    tell(futures[future], f"{type(error).__name__}: {error}")
        except BaseException:
            for future in futures:
                future.cancel()
            raise
        return []

    def _check(self, home: Home, on_gpus: bool) -> None:
        """Every worker must have this program, see the folder, and compute one run at a time, on a GPU of its own."""
        if not self._client.nthreads():
            sys.stderr.write(f"waiting for a worker at {self._address}\n")
            try:
                self._client.wait_for_workers(1, timeout=WAIT_S)
            except TimeoutError:
                raise UserError(f"--engine {self._address}: no worker came within {WAIT_S} s") from None
        with _token(self._root):
            answers = self._client.run(about_worker, home, on_error="return")
        problems = problems_of_workers(answers, self._client.nthreads(), on_gpus)
        if problems:
            raise UserError("\n".join(f"--engine {self._address}: {problem}" for problem in problems))


@dataclass(frozen=True)
class Home:
    """What a worker must have in common with the machine that started the study."""

    digest: str
    root: Path

    def problem(self) -> str | None:
        """What stands in the way here, if anything."""
        if digest_of_program() != self.digest:
            return "has another version of Fedmule; install the same one everywhere"
        if not self.root.is_dir():
            return f"cannot see the folder {self.root}; it must be on a disk that all share"
        return None


@contextmanager
def _token(root: Path) -> Iterator[None]:
    """A file by which workers recognise the folder."""
    root.mkdir(parents=True, exist_ok=True)
    token = root / ".shared"
    token.touch()
    try:
        yield
    finally:
        token.unlink()


def about_worker(home: Home) -> dict[str, Any]:
    """On a worker: what stands in the way there, and which GPUs it sees as (host, GPU)."""
    import platform

    import torch

    problem = home.problem()
    if problem is None and not (home.root / ".shared").exists():
        problem = f"sees another folder {home.root} than this machine; it must be on a disk that all share"
    count = torch.cuda.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",")[:count] if visible else [str(i) for i in range(count)]
    return {"problem": problem, "gpus": [(platform.node(), name) for name in names[:1]]}  # a run takes the first


def problems_of_workers(answers: Mapping[str, Any], threads: Mapping[str, int], on_gpus: bool) -> list[str]:
    """What stands in the way of a study on these workers."""
    found = []
    for name, answer in answers.items():
        problem = _problem_of(answer, threads.get(name, 1))
        if problem is not None:
            found.append(f"worker {name} {problem}")
    if on_gpus:
        seats = Counter(seat for answer in answers.values() if isinstance(answer, dict) for seat in answer["gpus"])
        found += [
            f"{count} workers share GPU {gpu} of {host}; give each its own by CUDA_VISIBLE_DEVICES"
            for (host, gpu), count in seats.items()
            if count > 1
        ]
    return found


def _problem_of(answer: Any, threads: int) -> str | None:
    """What a worker's answer, or its failure to give one, means."""
    if isinstance(answer, ModuleNotFoundError):
        return f"has no Fedmule, or another version: {answer}"
    if isinstance(answer, BaseException):
        return f"cannot be used: {type(answer).__name__}: {answer}"
    if threads > 1:
        return f"computes {threads} tasks at a time; start it with --nthreads 1, and more workers instead"
    problem: str | None = answer["problem"]
    return problem


@cache
def digest_of_program() -> str:
    """A hash of the program's source and of the versions that results depend on."""
    import hashlib
    from importlib import metadata

    digest = hashlib.sha256()
    for package in ("simulator", "mobility", "radio", "learning", "scenarios"):
        folder = Path(__file__).parents[2] / package
        for file in sorted([*folder.rglob("*.py"), *folder.rglob("*.toml")]):
            digest.update(file.relative_to(folder.parent).as_posix().encode() + b"\0" + file.read_bytes())
    for package in ("numpy", "torch"):
        digest.update(metadata.version(package).encode())
    return digest.hexdigest()


# --- in the workers ------------------------------------------------------------------------------------------


def _begin_worker(devices: Any) -> None:
    """Leave Ctrl-C to the parent, do not outlive it, and take a GPU of one's own where they are shared out."""
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
    """On a worker that may have joined since the study began."""
    problem = home.problem()
    return f"a worker {problem}" if problem else run_point(point, folder)


def run_point(point: Point, folder: Path) -> str | None:
    """Run a scenario beside its folder and move it there when it is whole; returns what went wrong, if anything."""
    from fedmule.simulator.runs.run import run_scenario  # heavy, and only workers need it
    from fedmule.simulator.scenario.plugins import load_plugins

    scenario, partial = point.scenario, folder.with_name(f"{folder.name}.partial-{uuid.uuid4().hex[:8]}")
    partial.mkdir(parents=True)
    try:
        plugins = load_plugins(scenario, point.plugin_folders is not None, point.plugin_folders or ())
        run_scenario(scenario, str(partial), plugins, interruptible=False)
        if not is_done(folder):  # a worker given up for dead may have done it meanwhile
            shutil.rmtree(folder, ignore_errors=True)
            partial.rename(folder)
        return None
    except UserError as error:
        return str(error).removeprefix(f"{scenario.name}: ")
    except Exception:
        return traceback.format_exc()
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def partials(folder: Path) -> list[Path]:
    """What runs of a folder left that are under way, or did not come to their end."""
    return list(folder.parent.glob(f"{folder.name}.partial-*"))
