"""The identity of a run: its resolved scenario, the content of the files it reads, and the program that makes it."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from fedmule.simulator.runs.folder import read_manifest
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.keys import OwnClass, Part, tables_of
from fedmule.simulator.scenario.load import to_toml

PACKAGE = Path(__file__).parents[2]
ROOMS = ("simulator", "mobility", "radio", "learning")
# Modules in these rooms that no result depends on. Any other module counts, and so does a new one.
NO_RESULTS = (
    "simulator/api.py",
    "simulator/cli.py",
    "simulator/commands",
    "simulator/runs/digests.py",
    "simulator/runs/identity.py",
    "simulator/runs/lock.py",
    "simulator/runs/machine.py",
    "simulator/runs/onnx_file.py",
    "simulator/runs/progress.py",
    "simulator/runs/trackers.py",
    "simulator/scenario/explain.py",
    "simulator/scenario/messages.py",
    "simulator/scenario/schema.py",
    "simulator/scenario/shipped.py",
    "simulator/studies",
)
INSTALLED = ("site-packages", "dist-packages")
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
    return found + [f"{name} has changed" for name in changed_parts(recorded.get("files") or {}, identity.files)]


def program_differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What distinguishes one program from another, in words."""
    changed = changed_parts(before, now)
    rooms = [name for name in changed if name in ROOMS]
    libraries = [f"{name} was {before.get(name)} and is now {now.get(name)}" for name in changed if name not in ROOMS]
    return ([f"the program has changed ({', '.join(rooms)})"] if rooms else []) + libraries


def changed_parts(before: Mapping[str, str | None], now: Mapping[str, str | None]) -> list[str]:
    """The parts of a program, or the files, that are not the same."""
    return [name for name in {**before, **now} if before.get(name) != now.get(name)]


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
        for file in sorted(_sources_of(plugin.__module__)):
            yield str(file), file


def _named_in(part: Part) -> Iterator[tuple[str, Path]]:
    """The files that a table of a scenario and the tables in it name."""
    for _, inner in tables_of(part):
        yield from _named_in(inner)
    for path in part.files().values():
        yield path, Path(path)
    yield from part.stored().items()
    if isinstance(part, OwnClass):
        for value in (part.model_extra or {}).values():
            if isinstance(value, str) and Path(value).is_file():
                yield value, Path(value)


def _sources_of(module: str) -> set[Path]:
    """The source of a user's module, and of the modules beside it that it imports, directly or not."""
    source = getattr(sys.modules.get(module), "__file__", None)
    found: set[Path] = set()
    if source is None or module.split(".")[0] == "fedmule":
        return found
    file = Path(source).resolve()
    folder = file.parents[module.count(".") + (file.name == "__init__.py")]  # where its top-level package is
    todo = [file]
    while todo:
        file = todo.pop()
        if file not in found:
            found.add(file)
            todo += _imported_by(file, folder, digest_of_file(file))
    return found


@cache
def _imported_by(file: Path, folder: Path, digest: str | None) -> list[Path]:
    """The files of the modules in a folder that a module imports; installed packages are not looked into."""
    try:
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
    except (OSError, SyntaxError, ValueError):
        return []
    stems: list[Path] = []  # files without their endings
    for node in nodes:
        if isinstance(node, ast.Import):
            stems += [folder.joinpath(*alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = file.parents[node.level - 1] if node.level else folder
            module = start.joinpath(*(node.module or "").split("."))
            stems += [module, *(module / alias.name for alias in node.names)]
    own = folder / file.relative_to(folder).parts[0] if folder.name in INSTALLED else folder
    files = [path for stem in stems for path in (stem.with_suffix(".py"), stem / "__init__.py")]
    program = folder / "fedmule"  # where that folder has a copy of it
    return [f for f in files if f.is_relative_to(own) and not f.is_relative_to(program) and f.is_file()]
