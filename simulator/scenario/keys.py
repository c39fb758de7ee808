"""What the tables of a scenario file are made of: typed keys with limits, and kinds to choose from."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Point = Annotated[tuple[float, float], Field(strict=False)]
Span = Annotated[tuple[NotNegative, NotNegative], Field(strict=False)]
PositiveSpan = Annotated[tuple[Positive, Positive], Field(strict=False)]
PositiveTriple = Annotated[tuple[Positive, Positive, Positive], Field(strict=False)]
AtLeastHalf = Annotated[float, Field(ge=0.5)]
Ring = Annotated[tuple[Point, ...], Field(strict=False, min_length=3)]

OWN_CLASS = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"


def key(default: Any, meaning: str, **limits: Any) -> Any:
    """A key of a scenario file."""
    return Field(default=default, description=meaning, **limits)


class Part(BaseModel):
    """A table of a scenario file: frozen, strict about types, no unknown keys, no NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=True)


class OwnClass(Part):
    """A class of the user's own, as "package.module:Class"; the other keys of its table are its arguments."""

    model_config = ConfigDict(extra="allow")
    kind: Annotated[str, Field(pattern=OWN_CLASS)]


def _kind_of(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return "own" if isinstance(kind, str) and ":" in kind else str(kind)


by_kind = Discriminator(_kind_of)  # `kind` chooses the variant, or names a class of the user's own
Own = Annotated[OwnClass, Tag("own")]


def short_for(default: str, **usual: Any) -> BeforeValidator:
    """A plain string stands for a table with that kind; a table without a kind has the default one.

    Where the kind is the default one, `usual` gives the keys that are not set.
    """

    def expand(value: Any) -> Any:
        if isinstance(value, str):
            value = {"kind": value}
        if not isinstance(value, dict):
            return value
        return {"kind": default, **(usual if value.get("kind", default) == default else {}), **value}

    return BeforeValidator(expand)
