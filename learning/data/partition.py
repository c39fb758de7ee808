"""Partitions: every sample belongs to at most one client, and there to training, validation or test."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from fedmule.learning.data.client_data import ClientData
from fedmule.learning.data.recordings import Rows, check_recordings, parts_of, whole_recordings
from fedmule.learning.data.samples import Samples
from fedmule.learning.errors import DataError

IntArray = NDArray[np.int64]

FEWEST = 3  # samples per client: one each for training, validation and test
PUBLISHED_LEAST = 10  # samples per client and label, in the published division
PUBLISHED_MORE = (300, 600)  # further samples, least and most
PUBLISHED_SEED = 1
REDRAWS = 200  # attempts to draw Dirichlet shares that give every client enough samples


@whole_recordings
def by_labels(samples: Samples, clients: int, generator: np.random.Generator, labels: int) -> Rows:
    """Give each client samples of only `labels` labels, in unequal numbers; labels are spread evenly over clients."""
    if labels > samples.classes:
        raise DataError(f"labels = {labels}: the data have only {samples.classes} labels")
    _check_total(samples, clients)
    # The client in slot p of a random order holds the labels in slots p … p + labels − 1 of another, in a circle.
    slot, circle = generator.permutation(clients), generator.permutation(samples.classes)
    rows: Rows = [np.empty(0, dtype=np.int64) for _ in range(clients)]
    for at, label in enumerate(circle):
        holders = np.flatnonzero((at - slot) % samples.classes < labels)
        if not holders.size:
            continue
        found = generator.permutation(np.flatnonzero(samples.labels == label))
        share = generator.lognormal(0.0, 1.0, len(holders))
        least = min(FEWEST, len(found) // len(holders))
        sizes = least + np.floor(share / share.sum() * (len(found) - least * len(holders))).astype(int)
        for client, part in zip(holders, np.split(found, np.cumsum(sizes))[:-1], strict=True):
            rows[client] = np.concatenate([rows[client], part])
    return check_enough(rows)


@whole_recordings
def as_published(samples: Samples, clients: int, generator: np.random.Generator, labels: int) -> Rows:
    """Divide samples as the program of the RWSADMM paper does: client i has labels i, i + 1, …, in unequal numbers.

    Everyone gets 10 samples of each of its labels; then, one client after the other, m (u + ⌊(N − n) w / Σ w⌋) more of
    them, if that leaves some of the N: u uniform from 300 to 600, w log-normal(0, 2) with Σ over n clients and their
    labels, m = 2 for at most 20 clients, else 1. These are drawn with the program's own seed, so sizes are its sizes in
    every run; which samples a client gets is drawn anew.
    """
    if labels > samples.classes:
        raise DataError(f"labels = {labels}: the data have only {samples.classes} labels")
    of_label = [generator.permutation(np.flatnonzero(samples.labels == label)) for label in range(samples.classes)]
    uniform = random.Random(PUBLISHED_SEED)
    weights = np.random.RandomState(PUBLISHED_SEED).lognormal(0.0, 2.0, (samples.classes, clients, labels))
    held = (np.arange(clients)[:, None] + np.arange(labels)) % samples.classes  # [n,labels]
    used = PUBLISHED_LEAST * np.bincount(held.ravel(), minlength=samples.classes)
    ends = np.cumsum([PUBLISHED_LEAST * (held == label).sum(axis=1) for label in range(samples.classes)], axis=1)
    rows: Rows = []
    for client in range(clients):
        mine = []
        for j, label in enumerate(held[client].tolist()):
            found, end = of_label[label], ends[label, client]
            row = client // max(1, clients // 10)  # as there; clients of one row have the label as another of theirs
            share = (len(found) - clients) * weights[label, row, j] / weights[label].sum()
            more = (uniform.randint(*PUBLISHED_MORE) + int(share)) * (2 if clients <= 20 else 1)
            mine.append(found[end - PUBLISHED_LEAST : end])
            if used[label] + more < len(found):
                mine.append(found[used[label] : used[label] + more])
                used[label] += more
        rows.append(np.concatenate(mine))
    return check_enough(rows)


@whole_recordings
def by_dirichlet(samples: Samples, clients: int, generator: np.random.Generator, alpha: float) -> Rows:
    """Split each label's samples by shares from a Dirichlet distribution; a small alpha means strong skew."""
    _check_total(samples, clients)
    of_label = [np.flatnonzero(samples.labels == label) for label in range(samples.classes)]
    for _ in range(REDRAWS):
        shuffled, cuts = [], []
        sizes = np.zeros(clients, dtype=np.int64)
        for found in of_label:
            shuffled.append(generator.permutation(found))
            share = generator.dirichlet(np.full(clients, alpha))
            cuts.append((np.cumsum(share)[:-1] * len(found)).astype(int))
            sizes += np.diff(cuts[-1], prepend=0, append=len(found))
        if sizes.min() >= FEWEST:
            break
    parts = [np.split(found, cut) for found, cut in zip(shuffled, cuts, strict=True)]
    return check_enough([np.concatenate(mine) for mine in zip(*parts, strict=True)])


@whole_recordings
def evenly(samples: Samples, clients: int, generator: np.random.Generator) -> Rows:
    """Give every client the same number of samples, drawn at random."""
    return check_enough(np.array_split(generator.permutation(len(samples.labels)), clients))


def by_column(samples: Samples, clients: int, generator: np.random.Generator) -> Rows:
    """Give each client the samples that name it as their owner."""
    if samples.owner is None:
        raise DataError(
            "the data do not say which client a sample belongs to: add a column `client` to the file, or name the "
            "column in learning.dataset.client"
        )
    found = int(samples.owner.max()) + 1
    if found != clients:
        raise DataError(f"the data belong to {found} clients or sites, but the scenario has {clients}")
    order = np.argsort(samples.owner, kind="stable")
    return check_enough(np.split(order, np.searchsorted(samples.owner[order], np.arange(1, clients))))


def split(
    samples: Samples,
    rows: Rows,
    generator: np.random.Generator,
    test_share: float = 0.25,
    validation_share: float = 0.0,
    max_train_samples: int | None = None,
) -> ClientData:
    """Shuffle each client's samples and split them in three parts; drop training samples beyond the maximum.

    Samples of one recording are all in the same part.
    """
    check_recordings(samples, rows, parts=2 if validation_share == 0 else 3)
    kept, train, validation = [], [], []
    for mine in rows:
        mine = generator.permutation(mine)
        cut = _parts_of_samples if samples.recording is None else partial(parts_of, samples)
        trains, checks, tests = cut(mine, test_share, validation_share)
        trains = trains[:max_train_samples]
        kept.append(np.concatenate([trains, checks, tests]))
        train.append(len(trains))
        validation.append(len(checks))
    order = np.concatenate(kept)
    return ClientData(
        torch.from_numpy(samples.features[order]),
        torch.from_numpy(samples.labels[order]),
        samples.classes,
        np.concatenate([[0], np.cumsum([len(mine) for mine in kept])]),
        np.array(train),
        np.array(validation),
        samples.shape,
    )


def _parts_of_samples(mine: IntArray, test_share: float, validation_share: float) -> Rows:
    """Divide a client's rows, in random order, into training, validation and test."""
    least = 1 if validation_share > 0 else 0
    tests = min(max(1, round(test_share * len(mine))), len(mine) - 1 - least)
    checks = min(max(least, round(validation_share * len(mine))), len(mine) - 1 - tests)
    return np.split(mine, [len(mine) - tests - checks, len(mine) - tests])


def check_rows(rows: Rows, samples: Samples, clients: int) -> None:
    """Raise a DataError unless every client gets enough samples and no sample is assigned twice."""
    if len(rows) != clients:
        raise DataError(f"assigns samples to {len(rows)} clients, but clients.count = {clients}")
    check_enough(rows)
    everyone = np.concatenate(rows)
    if everyone.dtype.kind not in "iu" or everyone.min() < 0 or everyone.max() >= len(samples.labels):
        raise DataError(f"rows must be whole numbers from 0 to {len(samples.labels) - 1}")
    times = np.bincount(everyone)
    if times.max() > 1:
        raise DataError(f"assigns sample {int(np.argmax(times))} {times.max()} times; once is allowed")


def check_enough(rows: Rows) -> Rows:
    """Return the rows unchanged; raise a DataError unless every client has samples for all parts."""
    for client, mine in enumerate(rows):
        if len(mine) < FEWEST:
            raise DataError(
                f"client {client} of {len(rows)} would get {len(mine)} samples but needs {FEWEST}: use fewer "
                "clients, more data or less skew"
            )
    return rows


def _check_total(samples: Samples, clients: int) -> None:
    if len(samples.labels) < FEWEST * clients:
        raise DataError(
            f"{len(samples.labels)} samples are not enough for {clients} clients: each needs at least {FEWEST}"
        )
