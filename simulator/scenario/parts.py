"""From a table of a scenario to the object it describes: the program's own classes and the user's alike.

A table's class is imported when it is made, and called with the table's keys and with whatever the program provides
that it asks for by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from fedmule.simulator.errors import Problem, ScenarioError
from fedmule.simulator.scenario.keys import OwnClass, Part
from fedmule.simulator.scenario.messages import problems_of, tables_in

Plugins = Mapping[str, Any]  # the user's own classes, by the dotted key that names them


@dataclass(frozen=True)
class Choice:
    """A class that a table chooses, and the keys it will be called with."""

    key: str  # dotted, such as radio.propagation
    made_by: Callable[..., Any]
    keys: Mapping[str, Any]  # values, or further choices
    own: str = ""  # the user's name for it, where it is the user's own

    def make(self, **provided: Any) -> Any:
        """Make the object, with those of the arguments provided that it asks for."""
        keys = {name: _made(value, provided) for name, value in self.keys.items()}
        wanted, takes_all = parameters_of(self.made_by)
        arguments = {name: value for name, value in provided.items() if takes_all or name in wanted} | keys
        if not self.own:  # one table may describe several classes, each of which takes some of its keys
            return self.made_by(**{name: value for name, value in arguments.items() if name in wanted})
        try:
            return self.made_by(**arguments)
        except Exception as error:  # whatever the user's class raises
            problem = Problem(f"{self.key}.kind", f"cannot be made: {error!r}", self.own)
            raise ScenarioError(self.key, [problem]) from error

    def ask(self, question: str, *arguments: Any) -> Any:
        """Call a class method with the keys, before any object is made."""
        method = getattr(self.made_by, question, None)
        if method is None:
            message = f"must be a subclass of one of fedmule's base classes: it has no {question}"
            raise ScenarioError(self.key, [Problem(f"{self.key}.kind", message, self.own)])
        return method(*arguments, **self.keys)


def choose(part: Part, key: str, plugins: Plugins) -> Choice:
    """Find the class of a table and its arguments; tables among the keys become choices too."""
    own = ""
    if isinstance(part, OwnClass):
        made_by, own = plugins[key], part.kind
        keys = own_keys(part, made_by, key).arguments()
    else:
        made_by, keys = _load(part.target()), part.arguments()
    return Choice(key, made_by, {n: _chosen(v, f"{key}.{n}", plugins) for n, v in keys.items()}, own)


def _chosen(value: Any, key: str, plugins: Plugins) -> Any:
    """A value, with tables in it, or a list of tables, turned into choices."""
    if isinstance(value, Part):
        return choose(value, key, plugins)
    if isinstance(value, tuple) and value and all(isinstance(part, Part) for part in value):
        return tuple(choose(part, f"{key}[{i}]", plugins) for i, part in enumerate(value))
    return value


def _made(value: Any, provided: Mapping[str, Any]) -> Any:
    if isinstance(value, Choice):
        return value.make(**provided)
    if isinstance(value, tuple) and value and all(isinstance(part, Choice) for part in value):
        return tuple(choice.make(**provided) for choice in value)
    return value


def own_keys(part: OwnClass, made_by: Callable[..., Any], key: str) -> Part:
    """Check the keys of a user's own class by its signature. Raises ScenarioError."""
    try:
        checked: Part = keys_class(made_by, part.provided).model_validate(part.model_extra or {})
        return checked
    except ValidationError as error:
        problems = [
            Problem(f"{key}.{p.key}", p.message, p.value)
            for p in problems_of(error, keys_class(made_by, part.provided))
        ]
        raise ScenarioError(key, problems) from None


def keys_class(made_by: Callable[..., Any], provided: tuple[str, ...]) -> type[Part]:
    """Describe the keys of a user's own class by its signature.

    A subclass of one of the program's classes has that class's keys too, with their defaults, limits and meanings.
    """
    wanted, takes_all = parameters_of(made_by)
    inherited = _inherited(made_by)
    fields: dict[str, Any] = {}
    for name, parameter in wanted.items():
        if name in provided:
            continue
        if name in inherited and parameter.default is parameter.empty:
            fields[name] = (inherited[name].annotation, inherited[name])
        else:
            default = ... if parameter.default is parameter.empty else parameter.default
            hint = _hint(made_by, name)
            strict = False if get_origin(hint) is tuple else None  # TOML has lists only
            meaning = f"argument of {made_by.__name__}"
            fields[name] = (hint, Field(default, description=meaning, strict=strict))
    base = _OpenKeys if takes_all else _Keys
    made: type[Part] = create_model(made_by.__name__, __base__=base, **fields)
    return made


def parameters_of(made_by: Callable[..., Any]) -> tuple[dict[str, inspect.Parameter], bool]:
    """Return the named arguments of a class or function, and whether it takes any others.

    Where a class passes others on to its base class (`**more`), that one's are its own too.
    """
    named: dict[str, inspect.Parameter] = {}
    for function in _constructors(made_by):
        parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]
        for parameter in parameters:
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                named.setdefault(parameter.name, parameter)
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            return named, False
    return named, True


def _constructors(made_by: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Return the constructors of a class, from it to its bases; or the function itself."""
    if not inspect.isclass(made_by):
        return [made_by]
    found = [vars(c) for c in inspect.getmro(made_by) if c is not object]
    functions = [own.get("__init__", own.get("__new__")) for own in found if "__init__" in own or "__new__" in own]
    return [getattr(function, "__func__", function) for function in functions] or [lambda: None]


def _hint(made_by: Callable[..., Any], name: str) -> Any:
    for function in _constructors(made_by):
        try:
            hints = get_type_hints(function)
        except Exception:  # names that only a type checker can see
            continue
        if name in hints:
            return hints[name]
    return Any


def _inherited(made_by: Callable[..., Any]) -> dict[str, FieldInfo]:
    """Return the keys of the nearest of the program's classes that a class derives from."""
    for c in inspect.getmro(made_by) if inspect.isclass(made_by) else ():
        keys = _tables().get(f"{c.__module__.removeprefix('fedmule.')}:{c.__name__}")
        if keys is not None:
            return dict(keys.model_fields)
    return {}


@cache
def _tables() -> dict[str, type[Part]]:
    """Return the tables of scenario files by the classes they make."""
    from fedmule.simulator.scenario import Scenario

    found: dict[str, type[Part]] = {}
    waiting: list[type[BaseModel]] = [Scenario]
    seen: set[type[BaseModel]] = set()
    while waiting:
        table = waiting.pop()
        if table in seen or not issubclass(table, Part):
            continue
        seen.add(table)
        found |= dict.fromkeys(table.targets(), table)
        for field in table.model_fields.values():
            waiting += tables_in(field.annotation).values()
    return found


def _load(target: str) -> Callable[..., Any]:
    module, _, name = target.partition(":")
    made_by: Callable[..., Any] = getattr(import_module(f"fedmule.{module}"), name)
    return made_by


class _Keys(Part):
    """Keys of a user's own class."""

    model_config = ConfigDict(validate_default=False, arbitrary_types_allowed=True, protected_namespaces=())


class _OpenKeys(_Keys):
    """Keys of a user's own class or function that takes any."""

    model_config = ConfigDict(extra="allow")

    def arguments(self) -> dict[str, Any]:
        """Return those too that its signature does not name."""
        return {**super().arguments(), **(self.model_extra or {})}
