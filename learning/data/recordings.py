"""Recordings stay together: all samples of one are with one client, and there in one part."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from fedmule.learning.data.samples import Samples
from fedmule.learning.errors import DataError

IntArray = NDArray[np.int64]
Rows = list[IntArray]  # the rows of each client's samples
Partition = TypeVar("Partition", bound=Callable[..., Rows])


def whole_recordings(partition: Partition) -> Partition:
    """Let a partition divide recordings, where there are any, as it divides samples.

    A recording counts as one sample, with the label that most of its samples have.
    """

    @wraps(partition)
    def divided(samples: Samples, clients: int, generator: np.random.Generator, *given: Any, **keys: Any) -> Rows:
        if samples.recording is None:
            return partition(samples, clients, generator, *given, **keys)
        _, number = np.unique(samples.recording, return_inverse=True)
        labels = usual_labels(number, samples.labels)
        units = Samples(np.zeros((len(labels), 1), dtype=np.float32), labels, samples.classes)
        rows = partition(units, clients, generator, *given, **keys)
        return [np.flatnonzero(np.isin(number, mine)) for mine in rows]

    return cast(Partition, divided)


def usual_labels(number: IntArray, labels: IntArray) -> IntArray:
    """Return the most frequent label of each recording, numbered 0 … m−1 in `number` [N]; of several the lowest."""
    counts = np.zeros((number.max() + 1, labels.max() + 1), dtype=np.int64)
    np.add.at(counts, (number, labels), 1)
    most: IntArray = counts.argmax(axis=1)
    return most


def parts_of(samples: Samples, mine: IntArray, test_share: float, validation_share: float) -> Rows:
    """Divide a client's rows, in random order, into training, validation and test by recording.

    Recordings go to test until it has its share of samples, as near as can be, then to validation. Each is taken from
    the label that has most of them left, so that no label is lost for training as long as another has two.
    """
    assert samples.recording is not None
    _, place, number = np.unique(samples.recording[mine], return_index=True, return_inverse=True)
    sizes, labels = np.bincount(number), usual_labels(number, samples.labels[mine])
    left = np.array([np.sum((labels == labels[i]) & (place >= place[i])) for i in range(len(place))])
    order = np.lexsort((place, -left))  # taking from the largest label is taking those with most left before them
    least = 1 if validation_share > 0 else 0
    tests = _first(sizes[order], test_share * len(mine), 1, len(order) - 1 - least)
    checks = _first(sizes[order[tests:]], validation_share * len(mine), least, len(order) - 1 - tests)
    part = np.zeros(len(order), dtype=np.int64)  # training
    part[order[tests : tests + checks]] = 1
    part[order[:tests]] = 2
    return [mine[part[number] == at] for at in range(3)]


def _first(sizes: IntArray, wanted: float, least: int, most: int) -> int:
    """Return how many of the first recordings together have the number of samples that is wanted, about."""
    middles = np.cumsum(sizes) - sizes / 2
    return int(np.clip(np.count_nonzero(middles <= wanted), least, most)) if wanted > 0 else 0


def check_recordings(samples: Samples, rows: Rows, parts: int) -> None:
    """Raise a DataError unless every client has recordings for all parts, and none that another client has."""
    if samples.recording is None:
        return
    owner = np.full(len(samples.labels), -1)
    for client, mine in enumerate(rows):
        owner[mine] = client
        if (found := len(np.unique(samples.recording[mine]))) < parts:
            raise DataError(
                f"client {client} of {len(rows)} would get samples of {found} recording{'s' * (found > 1)} but needs "
                f"{parts}: the samples of one are all for training, for validation or for test"
            )
    used = owner >= 0
    recording, client_of = np.unique(np.stack([samples.recording[used], owner[used]]), axis=1)
    divided = np.flatnonzero(recording[1:] == recording[:-1])
    if divided.size:
        one, other = client_of[divided[0]], client_of[divided[0] + 1]
        raise DataError(f"clients {one} and {other} would share a recording; its samples must stay together")
