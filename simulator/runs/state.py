"""The changing state of objects as plain arrays and JSON, to be written down and put back; nothing read is executed."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import types
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.simulator.errors import StateError

Array = NDArray[Any]
PLAIN = (bool, int, float, str, type(None))
# What cannot change.
FIXED = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial, type,
    torch.device, torch.dtype,
)  # fmt: skip


def save_state(path: Path, roots: Mapping[str, Any], constants: Iterable[Any] = ()) -> None:
    """Write what changes in these objects into one file, whole or not at all.

    Looks into attributes, lists, tuples, dicts and sets. What never changes is left out: functions, devices and the
    `constants`. Raises StateError where there is something it cannot write down.
    """
    kept = _Kept(constants)
    tree = {name: kept.encode(root, name) for name, root in roots.items()}
    members: dict[str, Any] = {f"array{k}": array for k, array in enumerate(kept.arrays)}
    members["tree"] = np.frombuffer(json.dumps(tree).encode(), dtype=np.uint8)
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        np.savez(file, **members)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def load_state(path: Path, roots: Mapping[str, Any]) -> None:
    """Put written state back into objects that were built alike: arrays in place, tensors on their own device."""
    try:
        with np.load(path, allow_pickle=False) as file:
            tree = json.loads(file["tree"].tobytes())
            if missing := roots.keys() - tree.keys():
                raise StateError(f"{path}: holds {', '.join(tree)}, not {', '.join(missing)}")
            decoder = _Decoder(file)
            for name, root in roots.items():
                decoder.decode(tree[name], root, name)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError) as error:
        raise StateError(f"{path}: cannot be read: {error}") from None


def _kind(value: Any) -> str:
    """frozen: a dataclass whose instances are made anew; object: one whose attributes are set."""
    if dataclasses.is_dataclass(value) and value.__dataclass_params__.frozen:  # type: ignore[union-attr]
        return "frozen"
    return "object" if hasattr(value, "__dict__") else ""


class _Kept:
    """Turns values into JSON, arrays aside; the same array is kept once."""

    def __init__(self, constants: Iterable[Any]) -> None:
        self.arrays: list[Array] = []
        self._constants = {id(constant) for constant in constants}
        self._places: dict[int, int] = {}
        self._alive: list[Any] = []  # so that no id is used again

    def encode(self, value: Any, name: str) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, PLAIN):
            return value
        if isinstance(value, Tensor | np.ndarray):
            return {"tensor" if isinstance(value, Tensor) else "array": self._place(value, name)}
        if isinstance(value, np.random.Generator):
            return {"generator": value.bit_generator.state}
        if isinstance(value, list | tuple):
            return {type(value).__name__: [self.encode(part, f"{name}[{i}]") for i, part in enumerate(value)]}
        if isinstance(value, set | frozenset):
            return {"set": [self.encode(part, name) for part in sorted(value)]}
        if isinstance(value, dict):
            pairs = [[self.encode(k, name), self.encode(v, f"{name}[{k!r}]")] for k, v in value.items()]
            return {"dict": pairs}
        if hasattr(value, "__dict__") and not isinstance(value, torch.nn.Module):
            parts = {k: v for k, v in vars(value).items() if not self._constant(v)}
            return {_kind(value): {k: self.encode(v, f"{name}.{k}") for k, v in parts.items()}}
        raise StateError(f"{name} is a {type(value).__name__}, which cannot be written down")

    def _constant(self, value: Any) -> bool:
        return id(value) in self._constants or isinstance(value, FIXED)

    def _place(self, value: Tensor | Array, name: str) -> int:
        if id(value) not in self._places:
            array = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
            if array.dtype.hasobject:
                raise StateError(f"{name} is an array of Python objects, which cannot be written down")
            self._places[id(value)] = len(self.arrays)
            self._alive.append(value)
            self.arrays.append(array)
        return self._places[id(value)]


class _Decoder:
    def __init__(self, file: Mapping[str, Array]) -> None:
        self._file = file  # reads an array when it is asked for
        self._tensors: dict[int, Tensor] = {}

    def decode(self, tree: Any, old: Any, name: str) -> Any:
        """The value written; `old` is what stands in its place now."""
        if isinstance(tree, PLAIN):
            return tree
        [(kind, inside)] = tree.items()
        if kind == "tensor":
            return self._tensor(inside, old)
        if kind == "array":
            return self._array(inside, old)
        if kind == "generator":
            old.bit_generator.state = inside
            return old
        if kind in ("list", "tuple", "set"):
            olds = old if isinstance(old, list | tuple) and len(old) == len(inside) else [None] * len(inside)
            both = enumerate(zip(inside, olds, strict=True))
            parts = [self.decode(part, was, f"{name}[{i}]") for i, (part, was) in both]
            return {"list": list, "tuple": tuple, "set": set}[kind](parts)
        if kind == "dict":
            into = old if isinstance(old, dict) else {}
            pairs = [(self.decode(k, None, name), v) for k, v in inside]
            new = {k: self.decode(v, into.get(k), f"{name}[{k!r}]") for k, v in pairs}
            into.clear()
            into.update(new)
            return into
        if kind != _kind(old):
            raise StateError(f"{name} was an object when it was written down, and is {old!r} now")
        new = {part: self.decode(tree, getattr(old, part, None), f"{name}.{part}") for part, tree in inside.items()}
        if kind == "frozen":
            return dataclasses.replace(old, **new)
        for part, value in new.items():
            setattr(old, part, value)
        return old

    def _tensor(self, place: int, old: Any) -> Tensor:
        if place not in self._tensors:
            device = old.device if isinstance(old, Tensor) else torch.device("cpu")
            self._tensors[place] = torch.from_numpy(self._file[f"array{place}"]).to(device)
        return self._tensors[place]

    def _array(self, place: int, old: Any) -> Array:
        """In place where it fits: others may look at the same array."""
        array = self._file[f"array{place}"]
        like = isinstance(old, np.ndarray) and old.shape == array.shape and old.dtype == array.dtype
        if like and old.flags.writeable:
            old[...] = array
            return old
        return array
