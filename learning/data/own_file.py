"""Samples from a file: columns of features, labels, clients and recordings, checked against the file's card."""

from __future__ import annotations

import csv
import gzip
import io
import math
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmule.learning.data.card import ENDINGS, Card, card_beside, card_path, check_columns, check_content
from fedmule.learning.data.samples import Samples
from fedmule.learning.errors import DataError
from fedmule.learning.free_memory import does_not_fit

LABEL, CLIENT, RECORDING = "label", "client", "recording"  # columns where neither scenario nor card names others

NO_CARD = Card()
TRIED = 1 << 25  # bytes that are unpacked to see how far a file unpacks
MOST_TIMES = 200  # its size: no table unpacks so far


@dataclass(frozen=True)
class Names:
    """Columns of a file that are not features."""

    label: str
    client: str | None
    recording: str | None

    def all(self) -> list[str]:
        """Return the names there are."""
        return [name for name in (self.label, self.client, self.recording) if name]


def from_file(path: str, label: str | None, client: str | None, recording: str | None) -> Samples:
    """Read samples from an npz, parquet or csv file: a column of labels, and columns of features.

    In an npz file `features` is an array [N, …]; label, client and recording are arrays [N]. Their values may be
    numbers or strings. Labels are numbered as the file's card lists them, else in sorted order. Columns named `client`
    and `recording` are used unless others are named.
    """
    file = _checked_path(path)
    card = card_beside(file) or NO_CARD
    given = _named(file, card, label, client, recording)
    if file.suffix == ".npz":
        features, names, columns = _read_npz(file, card, given)
    else:
        features, names, columns = _read_table(file, card, given)
    _check_amounts(file, card, features)
    check_content(file, card)
    try:
        labels, classes = _labels(file, card, columns[names.label])
        owner, recordings = (
            None if name is None else np.unique(columns[name], return_inverse=True)[1].astype(np.int64)
            for name in (names.client, names.recording)
        )
        if card.scale != 1:
            features = features / card.scale
        return Samples(features, labels, classes, owner, card.shape, recordings).checked()
    except TypeError:
        listed = ", ".join(names.all()[:-1]) + " and " + names.all()[-1] if len(names.all()) > 1 else names.label
        raise DataError(f"{path}: {listed} must each be all numbers or all strings") from None
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def names_in(
    path: str, label: str | None, client: str | None, recording: str | None
) -> tuple[list[str], list[Any], float]:
    """Return the names of a file's features (none for npz), its labels in the order of their numbers, and its scale."""
    file = _checked_path(path)
    card = card_beside(file) or NO_CARD
    given = _named(file, card, label, client, recording)
    if file.suffix == ".npz":
        _, names, columns = _read_npz(file, card, given)
        features: list[str] = []
    else:
        _, names, columns = _read_table(file, card, given)
        listed = card.features if isinstance(card.features, tuple) else columns_of(file)
        features = [name for name in listed if name not in names.all()]
    labels = list(card.classes) or np.unique(columns[names.label]).tolist()
    return features, labels, card.scale


def check_header(path: str, label: str | None, client: str | None, recording: str | None) -> None:
    """Raise a DataError if a file lacks columns, differs from its card or unpacks to too much; reads little of it."""
    file = _checked_path(path)
    card, found = card_beside(file) or NO_CARD, columns_of(file)
    try:
        _check_size(file)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file}: cannot be read: {error}") from None
    _check_columns(file, card, _names(card, _named(file, card, label, client, recording), found), found)


def columns_of(file: Path) -> list[str]:
    """Return the names of a file's columns, in npz of its arrays."""
    try:
        if file.suffix == ".npz":
            with zipfile.ZipFile(file) as arrays:
                return [name.removesuffix(".npy") for name in arrays.namelist()]
        if file.suffix == ".parquet":
            from pyarrow import parquet

            return [str(name) for name in parquet.read_schema(file).names]
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as content:
            return next(csv.reader(io.TextIOWrapper(content, encoding="utf-8-sig", newline="")), [])
    except Exception as error:  # readers raise many types
        raise DataError(f"{file}: cannot be read: {error}") from None


def _checked_path(path: str) -> Path:
    file = Path(path)
    if not file.is_file():
        raise DataError(f"{path}: no such file")
    if not file.name.endswith(ENDINGS):
        raise DataError(f"{path}: must be an .npz, .parquet, .csv or .csv.gz file")
    return file


def _named(file: Path, card: Card, label: str | None, client: str | None, recording: str | None) -> dict[str, Any]:
    """Return the columns that scenario or card name; raise a DataError where they contradict each other."""
    given = {"label": label, "client": client, "recording": recording}
    wrong = [
        f"{key} is {name!r} in the scenario and {on_card!r} in {card_path(file).name}"
        for key, name in given.items()
        if name is not None and (on_card := getattr(card, key)) is not None and name != on_card
    ]
    if wrong:
        raise DataError(f"{file}: {'; '.join(wrong)}")
    return {key: name if name is not None else getattr(card, key) for key, name in given.items()}


def _names(card: Card, given: dict[str, Any], columns: Iterable[str]) -> Names:
    """Complete the names of columns by the usual ones that a file has, unless its card lists the features."""
    found = set() if isinstance(card.features, tuple) else set(columns)
    label = given["label"] or LABEL
    client = given["client"] or (CLIENT if CLIENT in found and label != CLIENT else None)
    recording = given["recording"] or (RECORDING if RECORDING in found - {label, client} else None)
    return Names(label, client, recording)


def _check_columns(file: Path, card: Card, names: Names, found: Iterable[str]) -> None:
    """Raise a DataError unless a file has the columns named, and those on its card; features in npz are one array."""
    found, arrays = list(found), file.suffix == ".npz"
    if card is not NO_CARD:
        named = replace(card, label=names.label, client=names.client, recording=names.recording)
        if arrays:
            named = replace(named, features=("features",) if card.features else None)
        check_columns(file, named, found)
    for name in [*(["features"] if arrays else []), *names.all()]:
        if name not in found:
            there = ", ".join(map(str, found[:10]))
            raise DataError(f"{file}: has no {'array' if arrays else 'column'} {name!r}; it has {there}")


def _check_size(file: Path) -> None:
    """Raise a DataError if what a packed file holds does not fit into memory, before it is unpacked."""
    if file.suffix == ".npz":
        with zipfile.ZipFile(file) as arrays:
            needed = sum(info.file_size for info in arrays.infolist())
    elif file.suffix == ".parquet":
        from pyarrow import parquet

        found = parquet.read_metadata(file)
        needed = 8 * found.num_rows * found.num_columns
    elif file.suffix == ".gz":
        needed = _unpacked(file)
    else:
        return
    if wrong := does_not_fit(needed):
        raise DataError(f"{file}: {wrong}")


def _unpacked(file: Path) -> int:
    """Bytes that a file unpacks to at least; raise a DataError if they are far more than its size."""
    unpacked = 0
    with file.open("rb") as packed, gzip.open(packed) as content:
        while unpacked < TRIED and (part := content.read(1 << 20)):
            unpacked += len(part)
        if unpacked >= TRIED and unpacked > MOST_TIMES * packed.tell():
            text = f"unpacks to more than {MOST_TIMES} times its size; unpack it yourself if that is right"
            raise DataError(f"{file}: {text}")
    return unpacked


def _read_npz(file: Path, card: Card, given: dict[str, Any]) -> tuple[NDArray[Any], Names, dict[str, Any]]:
    try:
        _check_size(file)
        with np.load(file, allow_pickle=False) as arrays:
            names = _names(card, given, arrays.files)
            _check_columns(file, card, names, arrays.files)
            found = {name: arrays[name] for name in ["features", *names.all()]}
    except DataError:
        raise
    except (OSError, ValueError, TypeError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
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
    return features.reshape(len(features), int(np.prod(features.shape[1:]))), names, _checked(found, file)


def _read_table(file: Path, card: Card, given: dict[str, Any]) -> tuple[NDArray[Any], Names, dict[str, Any]]:
    import pandas as pd

    try:
        _check_size(file)
        table = pd.read_parquet(file) if file.suffix == ".parquet" else pd.read_csv(file, low_memory=False)
    except DataError:
        raise
    except Exception as error:  # a MemoryError too; pandas readers raise many types
        raise DataError(f"{file}: cannot be read: {error}") from None
    names = _names(card, given, table.columns)
    _check_columns(file, card, names, map(str, table.columns))
    if not len(table):
        raise DataError(f"{file}: holds no samples")
    features = table[list(card.features)] if isinstance(card.features, tuple) else table.drop(columns=names.all())
    strings = [str(c) for c in features.columns if not pd.api.types.is_numeric_dtype(features[c])]
    if strings:
        try:
            wrong = pd.to_numeric(features[strings[0]], errors="coerce").isna() & features[strings[0]].notna()
        except OverflowError:
            raise DataError(f"{file}: column {strings[0]!r} has a number that is too large") from None
        row = int(wrong.to_numpy().argmax())
        raise DataError(
            f"{file}: column {strings[0]!r} is neither label nor client and is not numeric: "
            f"{features[strings[0]].iloc[row]!r} in row {row}"
        )
    if not len(features.columns):
        raise DataError(f"{file}: has no feature columns")
    columns = {n: table[n].to_numpy(dtype=object, na_value=np.nan) for n in names.all()}
    return features.to_numpy(dtype=np.float64, na_value=np.nan), names, _checked(columns, file)


def _checked(columns: dict[str, Any], file: Path) -> dict[str, Any]:
    for name, column in columns.items():
        for row, value in enumerate(column.tolist()):
            if value is None or value == "" or (isinstance(value, float) and not math.isfinite(value)):
                raise DataError(f"{file}: row {row} has no {name}: {value!r}")
    return columns


def _check_amounts(file: Path, card: Card, features: NDArray[Any]) -> None:
    """Raise a DataError unless there are as many samples and features as the card says."""
    if not len(features):
        raise DataError(f"{file}: holds no samples")
    pairs = (("samples", len(features), card.samples), ("features", features.shape[1], card.feature_count))
    wrong = [f"{found} {what}, not {said}" for what, found, said in pairs if said is not None and found != said]
    if wrong:
        raise DataError(f"{file}: has {' and '.join(wrong)} as {card_path(file).name} says")


def _labels(file: Path, card: Card, column: Any) -> tuple[NDArray[np.int64], int]:
    """Number the labels [N] as the card lists them, else in sorted order; return them and the number of classes."""
    if not card.classes:
        found, labels = np.unique(column, return_inverse=True)
        return labels, len(found)
    number = {value: i for i, value in enumerate(card.classes)}
    try:
        return np.array([number[value] for value in column.tolist()], dtype=np.int64), len(number)
    except KeyError as error:
        row = column.tolist().index(error.args[0])
        raise DataError(
            f"row {row} has label {error.args[0]!r}, which is not among the classes in {card_path(file).name}"
        ) from None
