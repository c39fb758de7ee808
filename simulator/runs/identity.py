"""The identity of a run: its resolved scenario, the content of the files it reads, and the program that makes it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from fedmule.learning.data.image_sets import IMAGE_SETS, cache_folder
from fedmule.simulator.runs.folder import read_manifest
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.keys import OwnClass, Part
from fedmule.simulator.scenario.load import to_toml

PACKAGE = Path(__file__).parents[2]
ROOMS = ("simulator", "mobility", "radio", "learning")
# Modules in these rooms that no result depends on. Any other module counts, and so does a new one.
NO_RESULTS = (
    "simulator/api.py",
    "simulator/cli.py",
    "simulator/commands",
    "simulator/runs/identity.py",
    "simulator/runs/progress.py",
    "simulator/scenario/explain.py",
    "simulator/scenario/messages.py",
    "simulator/studies",
)
LIBRARIES = ("networkx", "numba", "numpy", "scipy", "shapely", "simpy", "torch")


@dataclass(frozen=True)
class Identity:
    """Two runs with the same identity, on the same kind of device, have the same results."""

    scenario: str  # SHA-256 of the resolved scenario
    program: Mapping[str, str]  # SHA-256 of the modules in each room, and the versions of libraries
    files: Mapping[str, str | None]  # SHA-256 of each file that the run reads; None for one that is not there

    def as_dict(self) -> dict[str, Any]:
        """The identity as manifest.json records it."""
        return asdict(self)


def identity_of(
    scenario: Scenario, plugins: Mapping[str, Any] | None = None, program: Mapping[str, str] | None = None
) -> Identity:
    """The identity of a scenario's run with the user's classes it names, made by this process or another program."""
    files = {name: digest_of_file(path) for name, path in files_of(scenario, plugins or {})}
    return Identity(digest_of_scenario(scenario), this_program() if program is None else program, files)


def differences(folder: Path, identity: Identity) -> list[str]:
    """What distinguishes the run in a folder from one with this identity, in words; empty if nothing does."""
    recorded = read_manifest(folder).get("identity")
    if not isinstance(recorded, dict):
        return ["it does not record which program made it"]
    found = [] if recorded.get("scenario") == identity.scenario else ["it is a run of another scenario"]
    found += program_differences(recorded.get("program") or {}, identity.program)
    before, now = recorded.get("files") or {}, identity.files
    return found + [f"{name} has changed" for name in {**before, **now} if before.get(name) != now.get(name)]


def program_differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What distinguishes one program from another, in words."""
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    rooms = [name for name in changed if name in ROOMS]
    libraries = [f"{name} was {before.get(name)} and is now {now.get(name)}" for name in changed if name not in ROOMS]
    return ([f"the program has changed ({', '.join(rooms)})"] if rooms else []) + libraries


# --- scenario and program -------------------------------------------------------------------------------------


def digest_of_scenario(scenario: Scenario) -> str:
    """SHA-256 of the resolved scenario as a file."""
    return hashlib.sha256(to_toml(scenario).encode()).hexdigest()


def program_on_disk(package: Path = PACKAGE) -> dict[str, str]:
    """The program that a process started now would run: a digest for each room, and the versions of libraries."""
    return {room: _digest_of_room(package, room) for room in ROOMS} | {name: _version(name) for name in LIBRARIES}


@cache
def this_program() -> dict[str, str]:
    """The program of this process: what was on disk when it first asked, whatever is changed there later."""
    return program_on_disk()


def _digest_of_room(package: Path, room: str) -> str:
    digest = hashlib.sha256()
    for file in sorted((package / room).rglob("*.py")):
        name = file.relative_to(package)
        if not any(name.is_relative_to(other) for other in NO_RESULTS):
            digest.update(f"{name.as_posix()} {digest_of_file(file)}\n".encode())
    return digest.hexdigest()


def _version(library: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "not installed"


# --- files ----------------------------------------------------------------------------------------------------


def digest_of_file(path: Path) -> str | None:
    """SHA-256 of a file's content; None if it cannot be read. A file is read again only after it has changed."""
    try:
        stat = path.stat()
        return _digest(path, stat.st_size, stat.st_mtime_ns)
    except OSError:
        return None


@cache
def _digest(path: Path, size: int, mtime_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_of(scenario: Scenario, plugins: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    """The files that a run reads, by the names under which they are recorded: data, traces, the user's modules."""
    yield from _named_in(scenario)
    for plugin in plugins.values():
        for file in sorted(_sources(sys.modules.get(plugin.__module__), set())):
            yield str(file), file


def _named_in(part: Part) -> Iterator[tuple[str, Path]]:
    """The files that a table of a scenario and the tables in it name."""
    values = {name: getattr(part, name) for name in type(part).model_fields}
    for name, value in values.items():
        for inner in value if isinstance(value, tuple) else (value,):
            if isinstance(inner, Part):
                yield from _named_in(inner)
        if name == "path" and isinstance(value, str):
            yield value, Path(value)
    if isinstance(part, OwnClass):
        for value in (part.model_extra or {}).values():
            if isinstance(value, str) and Path(value).is_file():
                yield value, Path(value)
    elif values.get("kind") in IMAGE_SETS:
        yield values["kind"], cache_folder() / f"{values['kind']}.npz"


def _sources(module: ModuleType | None, seen: set[Path]) -> set[Path]:
    """The source of a user's module, and of those modules in its folder that it imports."""
    source = _source_of(module)
    if module is None or source is None or source in seen:
        return seen
    seen.add(source)
    for value in list(vars(module).values()):
        name = getattr(value, "__module__", None)
        other = value if isinstance(value, ModuleType) else sys.modules.get(name) if isinstance(name, str) else None
        file = _source_of(other)
        if file is not None and file.is_relative_to(source.parent):
            if "site-packages" not in file.relative_to(source.parent).parts:  # an environment kept in that folder
                _sources(other, seen)
    return seen


def _source_of(module: ModuleType | None) -> Path | None:
    """The file of a module; None where it has none, or is Fedmule's."""
    file = getattr(module, "__file__", None)
    if module is None or not isinstance(file, str) or module.__name__.split(".")[0] == "fedmule":
        return None
    return Path(file).resolve()
