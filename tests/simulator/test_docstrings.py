"""Every public method is documented where it is defined or where a base class first defines it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pytest

import fedmule

ROOMS = ("analysis", "learning", "mobility", "radio", "scenarios", "simulator")


def classes(room: str) -> Iterator[type]:
    """Public classes that are defined in a room."""
    package = importlib.import_module(f"fedmule.{room}")
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(found.name)
        for name, value in vars(module).items():
            if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_"):
                yield value


def is_method(value: Any) -> bool:
    return inspect.isfunction(value) or isinstance(value, property | cached_property | classmethod | staticmethod)


def docstring(owner: type, name: str) -> str:
    """Docstring of a method or property, or of the nearest base class's that has one."""
    for base in owner.__mro__:
        if found := getattr(vars(base).get(name), "__doc__", None):
            return inspect.cleandoc(found)
    return ""


@pytest.mark.parametrize("room", ROOMS)
def test_public_methods_have_docstrings(room: str) -> None:
    lacking = [
        f"{owner.__module__}.{owner.__qualname__}.{name}"
        for owner in classes(room)
        for name, value in vars(owner).items()
        if is_method(value)
        and not name.startswith(("_", "model_"))  # model_: pydantic's own
        and not docstring(owner, name).split("\n\n")[0].endswith(".")
    ]
    assert not lacking, "\n".join(lacking)


def test_public_names_have_docstrings() -> None:
    for name in fedmule.__all__:
        assert inspect.getdoc(getattr(fedmule, name)), name
