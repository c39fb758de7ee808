"""Samples of one recording stay together."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmule.learning.data.partition import by_column, by_dirichlet, by_labels, evenly, split
from fedmule.learning.data.recordings import check_recordings
from fedmule.learning.data.samples import Samples
from fedmule.learning.errors import DataError


def pool(recordings=60, classes=4, owners=6, seed=0, shortest=1, longest=9):
    """Samples of recordings that are labelled in turn; the only feature is the sample's index."""
    generator = np.random.default_rng(seed)
    recording = np.repeat(np.arange(recordings), generator.integers(shortest, longest + 1, recordings))
    order = generator.permutation(len(recording))
    labels, owner = recording % classes, (recording // classes) % owners
    features = np.arange(len(order), dtype=np.float32)[:, None]
    return Samples(features, labels[order], classes, owner[order], recording=recording[order] + 7).checked()


KINDS = {
    "labels": partial(by_labels, labels=2),
    "dirichlet": partial(by_dirichlet, alpha=5.0),
    "iid": evenly,
    "column": by_column,
}


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    seed=st.integers(0, 1000),
    test=st.floats(0.05, 0.6),
    validation=st.sampled_from([0.0, 0.1, 0.3]),
    most=st.sampled_from([None, 1, 7]),
)
def test_a_recording_is_with_one_client_and_in_one_part(kind, seed, test, validation, most):
    samples = pool(seed=seed)
    rows = KINDS[kind](samples, clients=6, generator=np.random.default_rng(seed))
    if kind != "labels":  # which gives each client shares of a few labels only
        assert sorted(np.concatenate(rows).tolist()) == list(range(len(samples.labels)))
    data = split(samples, rows, np.random.default_rng(seed), test, validation, most)
    numbers = data.features[:, 0].numpy().astype(int)
    assert len(set(numbers.tolist())) == len(numbers)
    seen = {}  # client and part of each recording
    for client in range(6):
        bounds = [data.first[client], data.validation_first[client], data.test_first[client], data.first[client + 1]]
        for part in range(3):
            mine = numbers[bounds[part] : bounds[part + 1]]
            assert set(mine.tolist()) <= set(rows[client].tolist())
            for recording in samples.recording[mine].tolist():
                assert seen.setdefault(recording, (client, part)) == (client, part)
    assert data.train_count.min() >= 1
    assert data.test_count.min() >= 1
    assert (data.validation_count >= (validation > 0)).all()
    if most is not None:
        assert data.train_count.max() <= most


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_test_samples_are_as_near_to_their_share_as_recordings_allow(share):
    samples = pool(recordings=240, owners=6, longest=5)
    rows = by_column(samples, 6, np.random.default_rng(0))
    data = split(samples, rows, np.random.default_rng(0), share)
    sizes = np.array([len(mine) for mine in rows])
    assert np.abs(data.test_count - share * sizes).max() <= 2.5  # half of the longest recording


def test_no_label_is_lost_for_training_as_long_as_another_has_two_recordings():
    """A label with one recording keeps it; test samples come from those with several."""
    recording = np.repeat(np.arange(8), 10)
    labels = np.array([0, 1, 1, 1, 2, 2, 2, 2])[recording]
    samples = Samples(np.zeros((80, 1), np.float32), labels, 3, recording=recording).checked()
    for seed in range(20):
        data = split(samples, [np.arange(80)], np.random.default_rng(seed), 0.25, 0.25)
        zero, one, two = np.bincount(data.labels[: data.train_count[0]].numpy()).tolist()
        assert zero == 10
        assert sorted([one, two]) == [10, 20]  # four recordings are taken: of two, of both in any order, of either
        tests = data.labels[data.test_first[0] :].numpy()
        assert np.bincount(tests, minlength=3)[2] >= 10


def test_samples_without_recordings_are_split_as_ever():
    samples = Samples(np.arange(40, dtype=np.float32)[:, None], np.arange(40) % 4, 4).checked()
    data = split(samples, [np.arange(20), np.arange(20, 40)], np.random.default_rng(3), 0.2, 0.1, 10)
    generator = np.random.default_rng(3)
    first, second = generator.permutation(20), generator.permutation(np.arange(20, 40))
    expected = [*first[:10], *first[14:], *second[:10], *second[14:]]
    assert data.features[:, 0].tolist() == [float(number) for number in expected]


def test_too_few_recordings_are_reported():
    samples = pool(recordings=12, owners=6, classes=2, shortest=2)
    rows = by_column(samples, 6, np.random.default_rng(0))
    split(samples, rows, np.random.default_rng(0), 0.25)
    with pytest.raises(DataError, match="client 0 of 6 would get samples of 2 recordings but needs 3: the samples of"):
        split(samples, rows, np.random.default_rng(0), 0.25, 0.1)
    with pytest.raises(DataError, match="would get samples of 1 recording but needs 2"):
        check_recordings(samples, [np.flatnonzero(samples.recording == 7)], 2)


def test_recordings_that_clients_would_share_are_reported():
    samples = pool()
    with pytest.raises(DataError, match="clients 0 and 1 would share a recording"):
        split(samples, [np.arange(0, 40), np.arange(40, 80)], np.random.default_rng(0))


@pytest.mark.parametrize("wrong", [[1.5, 2.0], [-1, 0], [1]])
def test_recordings_must_be_whole_numbers(wrong):
    with pytest.raises(DataError, match="recording must hold one whole number, 0 or more, for each of the 2 samples"):
        Samples(np.zeros((2, 1)), np.array([0, 1]), 2, recording=np.array(wrong)).checked()
