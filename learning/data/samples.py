"""Samples before they are partitioned: public image sets, and your own files."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmule.learning.data import image_sets
from fedmule.learning.data.client_data import check_features, check_labels
from fedmule.learning.errors import DataError

IntArray = NDArray[np.int64]
CLIENT = "client"  # default name of the column that says which client a sample belongs to


@dataclass(frozen=True)
class Samples:
    """N samples, and the client each belongs to if the data say so."""

    features: NDArray[np.float32]  # [N,f]
    labels: IntArray  # [N] 0 … classes−1
    classes: int
    owner: IntArray | None = None  # [N] 0 … m−1, or None
    shape: tuple[int, ...] = ()  # of one sample, such as (channels, height, width); () for plain features

    def checked(self) -> Samples:
        """Return the samples converted to the types above from any arrays or lists; raise a DataError if invalid."""
        features, labels = np.asarray(self.features), np.asarray(self.labels)
        if features.dtype.kind not in "biuf":
            raise DataError(f"features must be numbers, not {features.dtype}")
        with np.errstate(over="ignore"):  # values too large for float32 become inf, which is reported below
            features = np.ascontiguousarray(features, dtype=np.float32)
        check_features(features, self.shape)
        check_labels(labels, len(features), self.classes, labels.dtype.kind in "biu")
        owner = None if self.owner is None else np.asarray(self.owner)
        if owner is not None and (owner.shape != labels.shape or owner.dtype.kind not in "iu" or owner.min() < 0):
            raise DataError(f"owner must hold one whole number, 0 or more, for each of the {len(labels)} samples")
        owner = None if owner is None else owner.astype(np.int64)
        return replace(self, features=features, labels=labels.astype(np.int64), owner=owner)


def images(clients: int, generator: np.random.Generator, name: str) -> Samples:
    """Load a cached public image set, training and test parts together, with pixels scaled to [0, 1]."""
    pixels, labels = image_sets.load(name)
    features = pixels.reshape(len(pixels), -1).astype(np.float32)
    features /= 255
    return Samples(features, labels.astype(np.int64), 10, shape=pixels.shape[1:])


def mnist(clients: int, generator: np.random.Generator) -> Samples:
    """Load MNIST from the cache."""
    return images(clients, generator, "mnist")


def fashion_mnist(clients: int, generator: np.random.Generator) -> Samples:
    """Load Fashion-MNIST from the cache."""
    return images(clients, generator, "fashion_mnist")


def cifar10(clients: int, generator: np.random.Generator) -> Samples:
    """Load CIFAR-10 from the cache."""
    return images(clients, generator, "cifar10")


def from_file(clients: int, generator: np.random.Generator, path: str, label: str, client: str | None) -> Samples:
    """Read samples from an npz, parquet or csv file: a label column, optionally a client column, else features.

    In an npz file `features` is an array [N, …]; label and client are arrays [N]. Labels and clients may be
    numbers or strings; they are numbered in sorted order. A column named `client` is used unless you name another.
    """
    file = Path(path)
    if not file.is_file():
        raise DataError(f"{path}: no such file")
    readers = {".npz": _read_npz, ".parquet": _read_table, ".csv": _read_table}
    if file.suffix not in readers:
        raise DataError(f"{path}: must be an .npz, .parquet or .csv file")
    features, columns = readers[file.suffix](file, label, client)
    if client is None and CLIENT in columns:
        client = CLIENT
    if not len(features):
        raise DataError(f"{path}: holds no samples")
    try:
        names, labels = np.unique(columns[label], return_inverse=True)
        owner = None if client is None else np.unique(columns[client], return_inverse=True)[1].astype(np.int64)
        return Samples(features, labels, len(names), owner).checked()
    except TypeError:
        raise DataError(f"{path}: {label} and {client or 'client'} must each be all numbers or all strings") from None
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def _read_npz(file: Path, label: str, client: str | None) -> tuple[NDArray[Any], dict[str, Any]]:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            wanted = ["features", *_named(label, client, arrays.files)]
            missing = [name for name in wanted if name not in arrays]
            if missing:
                raise DataError(f"{file}: has no array {missing[0]!r}; it has {', '.join(arrays.files)}")
            found = {name: arrays[name] for name in wanted}
    except DataError:
        raise
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{file}: cannot be read: {error}") from None
    features = found.pop("features")
    if features.ndim < 2:
        raise DataError(f"{file}: features must have the shape [samples, features], not {features.shape}")
    for name, column in found.items():
        if column.ndim != 1:
            raise DataError(f"{file}: {name} must hold one value per sample, not an array of shape {column.shape}")
    lengths = {name: len(column) for name, column in found.items()} | {"features": len(features)}
    if len(set(lengths.values())) > 1:
        raise DataError(f"{file}: arrays differ in length: {lengths}")
    return features.reshape(len(features), int(np.prod(features.shape[1:]))), _checked(found, file)


def _read_table(file: Path, label: str, client: str | None) -> tuple[NDArray[Any], dict[str, Any]]:
    import pandas as pd

    try:
        table = pd.read_parquet(file) if file.suffix == ".parquet" else pd.read_csv(file, low_memory=False)
    except Exception as error:  # pandas readers raise many types
        raise DataError(f"{file}: cannot be read: {error}") from None
    named = _named(label, client, table.columns)
    if not len(table):
        raise DataError(f"{file}: holds no samples")
    for name in named:
        if name not in table.columns:
            raise DataError(f"{file}: has no column {name!r}; it has {', '.join(map(str, table.columns[:10]))}")
    features = table.drop(columns=named)
    strings = [str(c) for c in features.columns if not pd.api.types.is_numeric_dtype(features[c])]
    if strings:
        wrong = pd.to_numeric(features[strings[0]], errors="coerce").isna() & features[strings[0]].notna()
        row = int(wrong.to_numpy().argmax())
        raise DataError(
            f"{file}: column {strings[0]!r} is neither label nor client and is not numeric: "
            f"{features[strings[0]].iloc[row]!r} in row {row}"
        )
    if not len(features.columns):
        raise DataError(f"{file}: has no feature columns")
    columns = {n: table[n].to_numpy(dtype=object, na_value=np.nan) for n in named}
    return features.to_numpy(dtype=np.float64, na_value=np.nan), _checked(columns, file)


def _named(label: str, client: str | None, names: Iterable[str]) -> list[str]:
    """Return the names of the columns that are not features."""
    if client is None and CLIENT in names and label != CLIENT:
        client = CLIENT
    return [label] + ([client] if client else [])


def _checked(columns: dict[str, Any], file: Path) -> dict[str, Any]:
    for name, column in columns.items():
        for row, value in enumerate(column.tolist()):
            if value is None or value == "" or (isinstance(value, float) and not math.isfinite(value)):
                raise DataError(f"{file}: row {row} has no {name}: {value!r}")
    return columns
