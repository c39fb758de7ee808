"""Load a scenario file with overrides into a validated Scenario, and write it back resolved."""

from __future__ import annotations

import copy
import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fedmule.simulator.errors import Problem, ScenarioError, UserError
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.algorithms import keep_reference
from fedmule.simulator.scenario.keys import OwnClass, Part, tables_of
from fedmule.simulator.scenario.maps import expand_maps
from fedmule.simulator.scenario.messages import problems_of
from fedmule.simulator.scenario.overrides import TOO_DEEP, parse_value, require_flat
from fedmule.simulator.scenario.raw_tables import mobility_tables, vehicle_tables
from fedmule.simulator.scenario.renamed import keep_meaning, old_keys, upgrade
from fedmule.simulator.scenario.rules import broken_rules

MOST_BYTES = 64 * 10**6  # of a TOML file
OTHER_FILES = ("experiments", "gain", "walks")  # folders beside the scenarios with experiments and studies of them
Overrides = Sequence[str] | Mapping[str, Any]  # KEY=VALUE as on the command line, or values by their dotted keys


def load_scenario(
    name: str, overrides: Overrides = (), seed: int | None = None, notes: list[str] | None = None
) -> Scenario:
    """The scenario in a file, or the packaged one of that name, with overrides applied.

    Raises ScenarioError with everything that is wrong at once. To `notes` is added what is worth knowing of its maps.
    """
    path = find_scenario(name)
    source = str(path) if Path(name).exists() else name
    raw = read_toml(path, source)
    of_a_run = (path.parent / "manifest.json").is_file()
    if raw.get("format") == 1 or ("format" not in raw and of_a_run):
        upgrade(raw)  # as an earlier version wrote it into its run folder
    if of_a_run:
        keep_meaning(raw)
    if seed is not None:
        raw["seed"] = seed
    raw.setdefault("name", path.stem)
    return scenario_of(raw, overrides, source, path.parent, notes)


def scenario_of(
    raw: dict[str, Any],
    overrides: Overrides,
    source: str,
    folder: Path = Path(),
    notes: list[str] | None = None,
) -> Scenario:
    """The scenario that a table as read from a file describes; files it names lie relative to `folder`."""
    pairs = overrides.items() if isinstance(overrides, Mapping) else [parse_override(text) for text in overrides]
    set_keys = []
    for dotted, value in pairs:
        replaced = _algorithm(raw)
        set_keys.append(_apply(raw, dotted, value))
        if dotted == "learning.algorithm":
            keep_reference(raw["learning"], replaced)
    problems = old_keys(raw)
    bad_maps, about_maps = expand_maps(raw, folder)
    problems += bad_maps
    if notes is not None:
        notes += about_maps
    _anchor_files(raw, folder)
    try:
        scenario = Scenario.model_validate(raw)
        problems += broken_rules(scenario)
    except ValidationError as error:
        problems += problems_of(error, Scenario)
    if problems:
        raise ScenarioError(source, [_with_source(p, set_keys) for p in problems])
    return scenario


def _algorithm(raw: dict[str, Any]) -> Any:
    learning = raw.get("learning")
    return copy.deepcopy(learning.get("algorithm")) if isinstance(learning, dict) else None


def packaged_scenarios() -> dict[str, Path]:
    """Return the scenarios that ship, by name."""
    from fedmule import scenarios

    folder = Path(scenarios.__file__).parent
    files = [file for file in sorted(folder.rglob("*.toml")) if file.parent.name not in OTHER_FILES]
    return {str(p.relative_to(folder).with_suffix("").as_posix()): p for p in files}


def find_scenario(name: str) -> Path:
    """Return the file of a name: a path, or the name of a scenario that ships."""
    path = Path(name)
    if path.is_file():
        return path
    packaged = packaged_scenarios()
    if name in packaged:
        return packaged[name]
    if path.is_dir() and (path / "scenario.toml").is_file():
        return path / "scenario.toml"  # a run folder: run it again
    near = difflib.get_close_matches(name, packaged, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UserError(f"{name}: no such file, and no scenario of that name ships ({', '.join(packaged)}){hint}")


def to_toml(scenario: Scenario) -> str:
    """Write the resolved scenario as TOML: every key with its value."""
    import tomli_w

    return tomli_w.dumps(_plain(scenario.model_dump(exclude_none=True)))


def own_classes(scenario: Part, prefix: str = "") -> dict[str, OwnClass]:
    """Find the user's own classes a scenario names, by dotted key."""
    found: dict[str, OwnClass] = {}
    for name, part in tables_of(scenario):
        if isinstance(part, OwnClass):
            found[prefix + name] = part
        else:
            found |= own_classes(part, f"{prefix}{name}.")
    return found


def read_toml(path: Path, source: str = "") -> dict[str, Any]:
    """Read a TOML file; `source` is its name in messages."""
    source = source or str(path)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UserError(f"{source}: is larger than {MOST_BYTES // 10**6} MB, as no scenario is")
        found = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        raise UserError(f"{source}: not a text file in UTF-8, as TOML must be") from None
    except ValueError as error:  # a TOMLDecodeError, or a number with thousands of digits
        raise UserError(f"{source}: not valid TOML: {error}") from None
    except RecursionError:
        raise UserError(f"{source}: {TOO_DEEP}") from None
    except OSError as error:
        raise UserError(f"{source}: cannot be read: {error.strerror}") from None
    require_flat(found, source)
    return found


def _anchor_files(raw: dict[str, Any], folder: Path) -> None:
    """Resolve the paths of data and traces relative to the scenario's folder."""
    learning = raw.get("learning")
    data = learning.get("dataset") if isinstance(learning, dict) else None
    tables = [(data, ("file",)), *((mobility, ("trace", "contacts")) for mobility in mobility_tables(raw).values())]
    for part, kinds in tables:
        if isinstance(part, dict) and part.get("kind") in kinds and isinstance(part.get("path"), str):
            part["path"] = str((folder / part["path"]).resolve())
    for vehicle in vehicle_tables(raw).values():
        trace = vehicle.get("trace")
        if isinstance(trace, dict) and isinstance(trace.get("path"), str):
            trace["path"] = str((folder / trace["path"]).resolve())


def parse_override(override: str) -> tuple[str, Any]:
    """Parse KEY=VALUE; the value is TOML, or a plain word."""
    dotted, equals, text = override.partition("=")
    dotted = dotted.strip()
    if not equals or not dotted:
        raise UserError(f"--set {override}: must be KEY=VALUE, such as vehicle.speed_mps=8")
    try:
        return dotted, parse_value(text, f"--set {dotted}")
    except ValueError:
        return dotted, text.strip()


def _apply(raw: dict[str, Any], dotted: str, value: Any) -> str:
    """Set one key of the raw scenario. Returns the key."""
    table: Any = raw
    *parents, last = dotted.split(".")
    for parent in parents:
        following = _item(table, parent, dotted)
        if isinstance(following, str):  # a kind written in short
            following = {"kind": following}
        elif following is None:
            following = {}
        table[_index(table, parent)] = following
        table = following
    _item(table, last, dotted)  # complains if this cannot hold a value
    table[_index(table, last)] = value
    return dotted


def _item(table: Any, name: str, dotted: str) -> Any:
    if isinstance(table, dict):
        return table.get(name)
    if isinstance(table, list) and name.isdecimal() and int(name) < len(table):
        return table[int(name)]
    raise UserError(f"--set {dotted}: {name} is not a key there")


def _index(table: Any, name: str) -> Any:
    return int(name) if isinstance(table, list) else name


def _with_source(problem: Problem, set_keys: list[str]) -> Problem:
    key = problem.key.replace("[", ".").replace("]", "")
    if any(f"{key}.".startswith(f"{k}.") or f"{k}.".startswith(f"{key}.") for k in set_keys):
        return Problem(problem.key, problem.message, problem.value, "--set")
    return problem


def _plain(value: Any) -> Any:
    """Prepare for TOML: a table with nothing but its kind becomes the kind, tuples become lists."""
    if isinstance(value, dict):
        return value["kind"] if list(value) == ["kind"] else {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value
