"""The building blocks of scenario tables: typed keys with limits, and parts to choose from by `kind`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from fedmule.simulator.errors import Problem

if TYPE_CHECKING:
    from fedmule.simulator.scenario import Scenario

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Point = Annotated[tuple[float, float], Field(strict=False)]
LonLat = Annotated[
    tuple[Annotated[float, Field(ge=-180, le=180)], Annotated[float, Field(gt=-90, lt=90)]], Field(strict=False)
]
Span = Annotated[tuple[NotNegative, NotNegative], Field(strict=False)]
OneOrSpan = Annotated[
    Span,
    BeforeValidator(
        lambda value: (value, value) if type(value) in (int, float) else value,
        json_schema_input_type=NotNegative | Span,
    ),
]
PositiveSpan = Annotated[tuple[Positive, Positive], Field(strict=False)]
PositiveTriple = Annotated[tuple[Positive, Positive, Positive], Field(strict=False)]
AtLeastHalf = Annotated[float, Field(ge=0.5)]
Ring = Annotated[tuple[Point, ...], Field(strict=False, min_length=3)]

OWN_CLASS = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"


def key(default: Any, meaning: str, **limits: Any) -> Any:
    """Declare a key of a scenario file."""
    return Field(default=default, description=meaning, **limits)


class Part(BaseModel):
    """A table of a scenario file: frozen, strict about types, no unknown keys, no NaN.

    A table that describes an object names its class in `makes`; the table's keys are the class's arguments. What a
    table demands of the rest of the scenario it says in `rules`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=True)
    makes: ClassVar[str] = ""  # "room.module:Class" in fedmule

    @classmethod
    def targets(cls) -> tuple[str, ...]:
        """Return the classes this table can make, as "room.module:Class"."""
        return (cls.makes,) if cls.makes else ()

    def target(self) -> str:
        """Return the class this table makes; some choose it by their keys."""
        return self.makes

    def arguments(self) -> dict[str, Any]:
        """Return the keys that are arguments of that class; values may be further parts."""
        return {name: getattr(self, name) for name in type(self).model_fields if name != "kind"}

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Yield what is wrong with this table, whose dotted key is `at`, beside the rest of the scenario."""
        return iter(())

    def needs_sites(self) -> bool:
        """Tell whether it makes a difference to which site a client belongs."""
        return False

    def files(self) -> dict[str, str]:
        """Return the files it names, by key: they belong to the identity of a run."""
        return {}

    def stored(self) -> dict[str, Path]:
        """Return the files it reads without naming them, in the box or in the cache: they belong to it too."""
        return {}

    def file_problems(self, at: str) -> Iterator[Problem]:
        """Yield what can be seen to be wrong with the files it names without reading them entirely."""
        return iter(())


def tables_of(part: Part) -> Iterator[tuple[str, Part]]:
    """Yield the tables in a table by their keys: those it has, and those in its lists, such as `groups[1]`."""
    for name in type(part).model_fields:
        value = getattr(part, name)
        if isinstance(value, Part):
            yield name, value
        elif isinstance(value, tuple):
            yield from ((f"{name}[{i}]", inner) for i, inner in enumerate(value) if isinstance(inner, Part))


class Chosen(Part):
    """A table that chooses by `kind`, as type checkers see it."""

    kind: str


class OwnClass(Part):
    """A class of the user's own, as "package.module:Class"; the other keys of its table are its arguments."""

    model_config = ConfigDict(extra="allow")
    provided: ClassVar[tuple[str, ...]] = ()  # arguments that the program provides beside the keys
    kind: Annotated[str, Field(pattern=OWN_CLASS)]


def one_of(default: str, *parts: type[Part], own: type[OwnClass], **usual: Any) -> Any:
    """Let `kind` choose one of these parts, or name a class of the user's own; a string is short for a kind.

    Where the kind is the default one, `usual` gives the keys that are not set.
    """
    tagged = [Annotated[part, Tag(part.model_fields["kind"].default)] for part in parts]
    return Annotated[reduce(or_, [*tagged, Annotated[own, Tag("own")]]), _by_kind, short_for(default, **usual)]


def short_for(default: str, **usual: Any) -> BeforeValidator:
    """Let a plain string stand for a table with that kind; a table without a kind has the default one."""

    def expand(value: Any) -> Any:
        if isinstance(value, str):
            value = {"kind": value}
        if not isinstance(value, dict):
            return value
        return {"kind": default, **(usual if value.get("kind", default) == default else {}), **value}

    return BeforeValidator(expand)


def ordered(key: str, span: tuple[float, float]) -> Iterator[Problem]:
    """Yield a problem unless a span goes from its lowest to its highest value."""
    if span[0] > span[1]:
        yield Problem(key, "must be [lowest, highest]", list(span))


def on_terrain(key: str, point: tuple[float, float], size_m: tuple[float, float]) -> Iterator[Problem]:
    """Yield a problem unless a point lies on the terrain."""
    if not (0 <= point[0] <= size_m[0] and 0 <= point[1] <= size_m[1]):
        size = f"{size_m[0]:g} × {size_m[1]:g} m"
        yield Problem(key, f"must lie on the terrain of {size}", list(point))


def _kind_of(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return "own" if isinstance(kind, str) and ":" in kind else str(kind)


_by_kind = Discriminator(_kind_of)
