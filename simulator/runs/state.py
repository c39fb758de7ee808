"""Save and restore the state of objects as plain arrays and JSON; nothing that is read is executed."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import types
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.files import replacing
from fedmule.simulator.errors import StateError

Array = NDArray[np.generic]
Json = bool | int | float | str | None | list["Json"] | dict[str, "Json"]
AT_ONCE = 1 << 20  # bytes read at once for a checksum
PLAIN = (bool, int, float, str, type(None))
# Values that cannot change.
FIXED = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial, type,
    torch.device, torch.dtype,
)  # fmt: skip


def save_state(path: Path, roots: Mapping[str, object], constants: Iterable[object] = ()) -> None:
    """Save the state of these objects in one file, with a checksum, completely or not at all.

    Follows attributes, lists, tuples, dicts and sets. Leaves out what never changes: functions, devices and the
    `constants`. Raises StateError if there is a value that it cannot save.
    """
    encoder = _Encoder(constants)
    tree = {name: encoder.encode(root, name) for name, root in roots.items()}
    arrays = {f"array{k}": array for k, array in enumerate(encoder.arrays)}
    arrays["tree"] = np.frombuffer(json.dumps(tree).encode(), dtype=np.uint8)
    with replacing(path, durable=True) as file:
        np.savez(file, allow_pickle=False, **arrays)
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        checksum = _checksum(file, size)
        file.seek(size)
        file.write(checksum)


def load_state(path: Path, roots: Mapping[str, object], checked: bool = True) -> None:
    """Restore saved state in objects that were built the same way: arrays in place, tensors on their own device.

    Raises StateError if the file is damaged; that its checksum is right has been seen already unless `checked`.
    """
    try:
        if checked and not _intact(path):
            raise StateError(f"{path}: its content has changed since it was written")
        with np.load(path, allow_pickle=False) as file:
            tree = json.loads(file["tree"].tobytes())
            if missing := roots.keys() - tree.keys():
                raise StateError(f"{path}: has the state of {', '.join(tree)}, not of {', '.join(sorted(missing))}")
            decoder = _Decoder(file)
            for name, root in roots.items():
                decoder.decode(tree[name], root, name)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError) as error:
        raise StateError(f"{path}: cannot be read: {error}") from None


@dataclasses.dataclass
class StateCopy:
    """The state of some objects at a moment, in memory."""

    tree: str = ""  # as JSON
    arrays: list[Array] = dataclasses.field(default_factory=list)


def copy_state(
    roots: Mapping[str, object], constants: Iterable[object] = (), unchanging: tuple[type, ...] = ()
) -> StateCopy:
    """Copy the state of these objects as `save_state` saves it, except for attributes of `unchanging` types."""
    encoder = _Encoder(constants, unchanging)
    tree = {name: encoder.encode(root, name) for name, root in roots.items()}
    return StateCopy(json.dumps(tree), [array.copy() for array in encoder.arrays])


def restore_copy(copy: StateCopy, roots: Mapping[str, object]) -> None:
    """Restore copied state in objects that were built the same way."""
    decoder = _Decoder({f"array{k}": array.copy() for k, array in enumerate(copy.arrays)})
    tree = json.loads(copy.tree)
    for name, root in roots.items():
        decoder.decode(tree[name], root, name)


def _checksum(file: BinaryIO, size: int) -> bytes:
    """Return the checksum of the first `size` bytes of a file; it stands after them."""
    found = hashlib.blake2b()
    while size > 0 and (part := file.read(min(size, AT_ONCE))):
        found.update(part)
        size -= len(part)
    return found.digest()


def _intact(path: Path) -> bool:
    """Return whether the file ends in the checksum of what stands before."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size - hashlib.blake2b().digest_size
        return size > 0 and _checksum(file, size) == file.read()


def _kind(value: object) -> str:
    """frozen: a dataclass that is recreated; object: one whose attributes are set; "" : neither."""
    parameters = getattr(value, "__dataclass_params__", None)
    if parameters is not None and parameters.frozen:
        return "frozen"
    return "object" if hasattr(value, "__dict__") else ""


class _Encoder:
    """Turns values into JSON, with arrays apart; an array that occurs several times is saved once."""

    def __init__(self, constants: Iterable[object], unchanging: tuple[type, ...] = ()) -> None:
        self.arrays: list[Array] = []
        self._constants = {id(constant) for constant in constants}
        self._fixed = (*FIXED, *unchanging)
        self._numbers: dict[int, int] = {}  # of arrays, by their id
        self._alive: list[object] = []  # so that no id is used again

    def encode(self, value: object, name: str) -> Json:
        """A value as JSON; `name` says where it was found."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, bool | int | float | str | None):
            return value
        if isinstance(value, Tensor | np.ndarray):
            return {"tensor" if isinstance(value, Tensor) else "array": self._number(value, name)}
        if isinstance(value, np.random.Generator):
            return {"generator": dict(value.bit_generator.state)}
        if isinstance(value, list | tuple):
            return {type(value).__name__: [self.encode(part, f"{name}[{i}]") for i, part in enumerate(value)]}
        if isinstance(value, set | frozenset):
            return {"set": [self.encode(part, name) for part in sorted(value)]}
        if isinstance(value, dict):
            pairs: list[Json] = [[self.encode(k, name), self.encode(v, f"{name}[{k!r}]")] for k, v in value.items()]
            return {"dict": pairs}
        if hasattr(value, "__dict__") and not isinstance(value, torch.nn.Module):
            parts = {k: v for k, v in vars(value).items() if not self._constant(v)}
            return {_kind(value): {k: self.encode(v, f"{name}.{k}") for k, v in parts.items()}}
        raise StateError(f"{name} is a {type(value).__name__}, which cannot be saved")

    def _constant(self, value: object) -> bool:
        return id(value) in self._constants or isinstance(value, self._fixed)

    def _number(self, value: Tensor | Array, name: str) -> int:
        """The number under which an array is saved."""
        if id(value) not in self._numbers:
            array = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
            if array.dtype.hasobject:
                raise StateError(f"{name} is an array of Python objects, which cannot be saved")
            self._numbers[id(value)] = len(self.arrays)
            self._alive.append(value)
            self.arrays.append(array)
        return self._numbers[id(value)]


class _Decoder:
    """Turns JSON and arrays back into values."""

    def __init__(self, file: Mapping[str, Array]) -> None:
        self._file = file  # reads an array when it is asked for
        self._tensors: dict[int, Tensor] = {}

    def decode(self, tree: Json, old: object, name: str) -> object:
        """The value that was saved; `old` is the present one, which is reused where it can be."""
        if isinstance(tree, PLAIN):
            return tree
        assert isinstance(tree, dict)
        [(kind, inside)] = tree.items()
        if isinstance(inside, int):
            return self._tensor(inside, old) if kind == "tensor" else self._array(inside, old)
        if kind == "generator":
            assert isinstance(old, np.random.Generator)
            assert isinstance(inside, dict)
            old.bit_generator.state = inside
            return old
        if isinstance(inside, list):
            return self._pairs(inside, old, name) if kind == "dict" else self._parts(kind, inside, old, name)
        assert isinstance(inside, dict)
        if kind != _kind(old):
            raise StateError(f"{name} was an object when it was saved, and is {old!r} now")
        new = {part: self.decode(tree, getattr(old, part, None), f"{name}.{part}") for part, tree in inside.items()}
        if kind == "frozen":
            assert dataclasses.is_dataclass(old)
            assert not isinstance(old, type)
            return dataclasses.replace(old, **new)
        for part, value in new.items():
            setattr(old, part, value)
        return old

    def _parts(self, kind: str, inside: list[Json], old: object, name: str) -> object:
        """A list, tuple or set."""
        olds = old if isinstance(old, list | tuple) and len(old) == len(inside) else [None] * len(inside)
        both = enumerate(zip(inside, olds, strict=True))
        parts = [self.decode(part, was, f"{name}[{i}]") for i, (part, was) in both]
        return set(parts) if kind == "set" else tuple(parts) if kind == "tuple" else parts

    def _pairs(self, inside: list[Json], old: object, name: str) -> object:
        """A dict; the present one is filled again, since others may refer to it."""
        into: dict[object, object] = old if isinstance(old, dict) else {}
        new: dict[object, object] = {}
        for pair in inside:
            assert isinstance(pair, list)
            key = self.decode(pair[0], None, name)
            new[key] = self.decode(pair[1], into.get(key), f"{name}[{key!r}]")
        into.clear()
        into.update(new)
        return into

    def _tensor(self, number: int, old: object) -> Tensor:
        if number not in self._tensors:
            device = old.device if isinstance(old, Tensor) else torch.device("cpu")
            self._tensors[number] = torch.from_numpy(self._file[f"array{number}"]).to(device)
        return self._tensors[number]

    def _array(self, number: int, old: object) -> Array:
        """In place where it fits: others may refer to the same array."""
        array = self._file[f"array{number}"]
        if not isinstance(old, np.ndarray) or not old.flags.writeable:
            return array
        if old.shape != array.shape or old.dtype != array.dtype:
            return array
        old[...] = array
        return old
