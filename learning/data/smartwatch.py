"""Shoulder exercises recorded by a smartwatch: the recordings of the seglearn package, cut into windows."""

from __future__ import annotations

import hashlib
import importlib.util
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from fedmule.learning.data.arrays_only import unpickle_arrays
from fedmule.learning.data.cache import UNREADABLE, cached, damaged, load_arrays, store
from fedmule.learning.data.catalogue import card_of
from fedmule.learning.data.samples import Samples
from fedmule.learning.errors import DataError

FILE = "watch_dataset.npy"
CHANNELS = 6  # acceleration along x, y, z in g, then rate of rotation about them in rad/s
# At 50 Hz a window is 2 s, about one repetition of an exercise, and half of it overlaps the next.
WIDTH, STEP = 100, 50
TENTH = 5  # values in a tenth of a second
ARRAYS = ("features", "exercise", "wearer", "recording", "begin", "end", "layout")
LAYOUT = np.array([WIDTH, STEP])  # of the cached windows

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Recording:
    """One exercise of one arm, about 20 repetitions."""

    signal: FloatArray  # [T,6] at 50 Hz
    exercise: int  # 0 … 6
    wearer: int  # 2 · (person − 1) + 1 for the right arm, 0 for the left


def import_watch(folder: Path | None = None) -> Path:
    """Take the recordings from a folder, or else from the installed seglearn package; verify and cache them."""
    file = _find(folder) if folder else installed()
    if file is None:
        raise DataError(
            "The recordings of the smartwatch are in the package seglearn, which is not installed: run\n"
            "  pip install seglearn\n"
            f"and then `fedmule data watch`; or bring its file {FILE} and run `fedmule data watch --from FOLDER`"
        )
    content, published = file.read_bytes(), card_of("watch").sha256
    found = hashlib.sha256(content).hexdigest()
    if found != published:
        raise DataError(
            f"{file} is not the file that seglearn publishes: its SHA-256 checksum is {found}, not {published}"
        )
    return store("watch", **windows(read_recordings(content, str(file))))


def installed() -> Path | None:
    """Return the file in the installed seglearn package, which is not imported; None if there is none."""
    package = importlib.util.find_spec("seglearn")
    folders = package.submodule_search_locations if package else None
    files = [Path(folder) / "data" / FILE for folder in folders or ()]
    return next((file for file in files if file.is_file()), None)


def _find(folder: Path) -> Path:
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder")
    for file in sorted(folder.rglob(FILE)):
        return file
    raise DataError(f"{folder} holds no {FILE}")


def read_recordings(content: bytes, name: str) -> list[Recording]:
    """Return the recordings in seglearn's file, a dictionary of arrays in an npy file, without running code."""
    try:
        file = io.BytesIO(content)
        npy.read_magic(file)
        npy.read_array_header_1_0(file)
        data = unpickle_arrays(content[file.tell() :], encoding="ASCII").item()
        wearer = 2 * (np.asarray(data["subject"]).astype(int) - 1) + np.asarray(data["side"]).astype(int)
        found = zip(data["X"], np.asarray(data["y"]).tolist(), wearer.tolist(), strict=True)
        return [Recording(_signal(signal), int(exercise), who) for signal, exercise, who in found]
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    except Exception as error:  # a damaged pickle can raise anything
        raise DataError(f"{name} does not hold recordings as seglearn stores them: {error!r}") from None


def _signal(values: Any) -> FloatArray:
    signal = np.ascontiguousarray(values, dtype=np.float64)
    if signal.ndim != 2 or signal.shape[1] != CHANNELS:
        raise DataError(f"a recording has the shape {signal.shape}, not [samples, {CHANNELS}]")
    return signal


def windows(recordings: list[Recording]) -> dict[str, NDArray[Any]]:
    """Cut recordings into windows; return arrays by the names in the cache, one entry per window."""
    begins = [np.arange(0, len(one.signal) - WIDTH + 1, STEP) for one in recordings]
    number = np.repeat(np.arange(len(recordings)), [len(found) for found in begins])
    views = [np.lib.stride_tricks.sliding_window_view(one.signal, WIDTH, axis=0)[::STEP] for one in recordings]
    begin = np.concatenate(begins)
    length = np.array([len(one.signal) for one in recordings])[number]
    return {
        "features": features_of(np.concatenate(views)),
        "exercise": np.array([one.exercise for one in recordings])[number],
        "wearer": np.array([one.wearer for one in recordings])[number],
        "recording": number,
        "begin": begin / length,  # as shares of the recording
        "end": (begin + WIDTH) / length,
        "layout": LAYOUT,
    }


def features_of(signal: FloatArray) -> NDArray[np.float32]:
    """Return the features [N,30] of windows [N,6,T]: statistics of each channel.

    These are the mean, standard deviation, lowest and highest value, and the mean pace of change per tenth of a second.
    """
    change = TENTH * np.abs(np.diff(signal, axis=2)).mean(axis=2)
    statistics = [signal.mean(axis=2), signal.std(axis=2), signal.min(axis=2), signal.max(axis=2), change]
    return np.concatenate(statistics, axis=1).astype(np.float32)


def watch(clients: int, generator: np.random.Generator, blocks: int) -> Samples:
    """Load the windows from the cache; with fewer clients than wearers, those of some of them drawn at random.

    Each recording is cut into `blocks` of equal duration, which count as recordings of their own; windows across a cut
    are left out.
    """
    if not cached("watch").exists():
        raise DataError("The recordings of the smartwatch are not on this computer yet: run `fedmule data watch` first")
    try:
        features, exercise, wearer, recording, begin, end, layout = load_arrays("watch", *ARRAYS)
        if layout.tolist() != LAYOUT.tolist():
            raise ValueError("made by another version")
        block = np.floor(begin * blocks).astype(np.int64)
        kept = np.ceil(end * blocks - 1e-9) == block + 1
        wearers = np.unique(wearer)
        if clients < len(wearers):
            kept &= np.isin(wearer, generator.permutation(wearers)[:clients])
        owner = np.unique(wearer[kept], return_inverse=True)[1]
        ids = (blocks * recording + block)[kept]
        return Samples(features[kept], exercise[kept], len(card_of("watch").classes), owner, recording=ids).checked()
    except UNREADABLE as error:
        raise damaged("watch", error) from None
