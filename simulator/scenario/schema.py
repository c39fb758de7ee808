"""The JSON schema of scenario files, for editors that check and complete TOML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.keys import OWN_CLASS, Part
from fedmule.simulator.scenario.map_files import keys_beside
from fedmule.simulator.scenario.maps import SHAPES
from fedmule.simulator.scenario.mobility import RoadKeys
from fedmule.simulator.scenario.vehicle import RouteKeys

DRAFT = "http://json-schema.org/draft-07/schema#"  # the one that editors of TOML know
MAPS: tuple[tuple[str, type[Part], str], ...] = (  # keys that a map may stand for, what it becomes, and its shapes
    *((name, part, "polygon") for name, part in SHAPES.items()),
    ("roads", RoadKeys, "lines"),
    ("route", RouteKeys, "points"),
)

Json = dict[str, Any]


def schema() -> Json:
    """Return the schema: pydantic's, with the short forms that are expanded before it validates."""
    found = _plain(Scenario)
    tables = found.pop("$defs")
    for name, part, holds in MAPS:
        loaded = _plain(keys_beside(part, holds))
        tables |= loaded.pop("$defs", {})
        tables[f"map of {name}"] = loaded
    for table in (found, *tables.values()):
        for name, key in table.get("properties", {}).items():
            _allow_short_forms(name, key, tables)
    return {"$schema": DRAFT, **_draft_7(found), "title": "Fedmule scenario", "$defs": _draft_7(tables)}


def _plain(part: type[BaseModel]) -> Json:
    return part.model_json_schema(ref_template="#/$defs/{model}")


def _allow_short_forms(name: str, key: Json, tables: Json) -> None:
    """Let a string stand for a kind or a map's file, and a map for shapes."""
    for choice in list(_choices(key)):
        parts = choice.pop("oneOf")
        kinds = [tables[_name(part)]["properties"]["kind"].get("const") for part in parts]
        strings = [{"enum": [kind for kind in kinds if kind]}, {"type": "string", "pattern": OWN_CLASS}]
        choice["anyOf"] = [*strings, *parts]
    if name in SHAPES:
        each = {"anyOf": [key.pop("items"), *_maps(name)]}
        key.pop("type")
        key["anyOf"] = [{"type": "array", "items": each}, *_maps(name)]
    elif any(name == other for other, *_ in MAPS) and "anyOf" in key:
        key["anyOf"] += _maps(name)


def _maps(name: str) -> list[Json]:
    return [{"$ref": f"#/$defs/map of {name}"}, {"type": "string", "description": "the file of a map"}]


def _choices(value: Any) -> Iterator[Json]:
    """The parts of a schema that choose one of several tables by their kind."""
    if isinstance(value, dict):
        if all("$ref" in part for part in value.get("oneOf", [{}])):
            yield value
        for inner in value.values():
            yield from _choices(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _choices(inner)


def _name(reference: Json) -> str:
    return str(reference["$ref"]).removeprefix("#/$defs/")


def _draft_7(value: Any) -> Any:
    """The same in draft 7: lists of given length; without titles, which repeat the keys, and null, which TOML lacks."""
    if isinstance(value, list):
        return [_draft_7(inner) for inner in value if inner != {"type": "null"}]
    if not isinstance(value, dict):
        return value
    plain = {name: _draft_7(inner) for name, inner in value.items() if name != "prefixItems"}
    if isinstance(plain.get("title"), str):
        del plain["title"]
    if "default" in plain and plain["default"] is None:
        del plain["default"]
    if "prefixItems" in value:
        plain |= {"items": _draft_7(value["prefixItems"]), "additionalItems": False}
    return plain
