"""A Dask cluster as the workers of a batch."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedmule.simulator.errors import UserError
from fedmule.simulator.runs.identity import changed_parts, program_on_disk, this_program
from fedmule.simulator.studies.plan import Point
from fedmule.simulator.studies.workers import Report, run_point

WAIT_S = 300  # for the first worker
CONNECT_S = 15


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
        """Disconnect."""
        self._client.close()

    def run(self, points: Mapping[Path, Point], alone: bool, report: Report) -> list[Path]:
        """Run points on the cluster; its scheduler repeats those of workers that die, so that none are lost."""
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
        if changed := changed_parts(self.program, this_program()):
            return f"has another version of Fedmule (different: {', '.join(changed)}); install the same one everywhere"
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


def _run_remote(point: Point, folder: Path, home: Home) -> str | None:
    """On a cluster's worker, which may have joined after the study began and so has not been checked."""
    problem = home.problem()
    return f"a worker {problem}" if problem else run_point(point, folder)
