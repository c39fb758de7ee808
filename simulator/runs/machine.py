"""What a run was made with and on, for its manifest."""

from __future__ import annotations

import platform
from importlib import metadata
from pathlib import Path
from typing import Any

VERSIONS_OF = (
    "fedmule", "torch", "numpy", "numba", "scipy", "simpy", "shapely", "networkx", "pandas", "pyarrow",
)  # fmt: skip
PACKAGE = Path(__file__).parents[2]


def made_with() -> dict[str, Any]:
    """Program, libraries, system and processor, as manifest.json records them."""
    import torch

    return {
        "host": platform.node(),
        "system": platform.platform(),
        "cpu": _processor(),
        "cpu_features": torch.backends.cpu.get_cpu_capability(),  # which of its instructions torch uses
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "commit": commit_of(PACKAGE),
        "versions": {package: _version(package) for package in VERSIONS_OF},
    }


def commit_of(folder: Path) -> str | None:
    """The commit that a checkout of git is at; None for what is no checkout."""
    try:
        head = (folder / ".git" / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref: "):
            return head
        name = head.removeprefix("ref: ")
        loose = folder / ".git" / name
        if loose.is_file():
            return loose.read_text(encoding="utf-8").strip()
        packed = (folder / ".git" / "packed-refs").read_text(encoding="utf-8").splitlines()
        return next((line.split()[0] for line in packed if line.endswith(f" {name}")), None)
    except (OSError, ValueError):
        return None


def _processor() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
