"""The recordings of a smartwatch: a small file in the format of seglearn, and the real one where it is installed."""

import hashlib
import os
import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from fedmule.learning.data import smartwatch
from fedmule.learning.data.catalogue import card_of
from fedmule.learning.data.partition import by_column, split
from fedmule.learning.data.smartwatch import FILE, import_watch, installed, read_recordings, watch
from fedmule.learning.errors import DataError

PERSONS, LENGTH = 2, 640


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDMULE_DATA", str(tmp_path / "cache"))


def recordings():
    """Every exercise of both arms of two persons, in the types that seglearn's file has."""
    generator = np.random.default_rng(0)
    order = generator.permutation(PERSONS * 2 * 7)
    return {
        "X": [np.asfortranarray(generator.normal(size=(LENGTH + 3 * int(i), 6))) for i in order],
        "y": order % 7,
        "subject": 1 + order // 14,
        "side": (order // 7 % 2).astype(float),
        "X_labels": ["ax", "ay", "az", "wx", "wy", "wz"],
    }


def content_of(data):
    """An npy file that holds a pickled dictionary."""
    wrapped = np.empty((), dtype=object)
    wrapped[()] = data
    header = "{'descr': '|O', 'fortran_order': False, 'shape': (), }".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + pickle.dumps(wrapped, 2)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a small file, whose checksum is the published one."""
    folder = tmp_path / "files"
    (folder / "data").mkdir(parents=True)
    content = content_of(recordings())
    (folder / "data" / FILE).write_bytes(content)
    card = replace(card_of("watch"), sha256=hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(smartwatch, "card_of", lambda name: card)
    return folder


def load(clients=4, blocks=1, seed=0):
    return watch(clients, np.random.default_rng(seed), blocks)


def test_windows_of_each_recording_have_its_exercise_and_its_arm(folder):
    import_watch(folder)
    samples, data = load(), recordings()
    begins = [(i, begin) for i, signal in enumerate(data["X"]) for begin in range(0, len(signal) - 99, 50)]
    assert samples.features.shape == (len(begins), 30)
    for row, (i, begin) in enumerate(begins):
        window = data["X"][i][begin : begin + 100]
        change = np.mean([abs(after - before) for before, after in pairwise(window)], axis=0)
        expected = [window.mean(0), window.std(0), window.min(0), window.max(0), 5 * change]
        np.testing.assert_allclose(samples.features[row], np.concatenate(expected), rtol=1e-5, atol=1e-6)
    which = np.array([i for i, _ in begins])
    assert samples.labels.tolist() == data["y"][which].tolist()
    assert samples.owner.tolist() == (2 * (data["subject"] - 1) + data["side"])[which].tolist()
    assert samples.recording.tolist() == which.tolist()
    assert samples.classes == 7


def test_the_split_is_by_recording(folder):
    import_watch(folder)
    samples = replace(load(), features=np.arange(len(load().labels), dtype=np.float32)[:, None])
    data = split(samples, by_column(samples, 4, np.random.default_rng(0)), np.random.default_rng(0))
    for client in range(4):
        rows = data.features[data.first[client] : data.first[client + 1], 0].numpy().astype(int)
        train, test = np.split(samples.recording[rows], [data.train_count[client]])
        assert not set(train.tolist()) & set(test.tolist())
        assert len(set(train.tolist())) == 5
        assert len(set(test.tolist())) == 2


@pytest.mark.parametrize("blocks", [2, 4])
def test_windows_of_two_blocks_have_no_value_in_common(folder, blocks):
    import_watch(folder)
    lengths = [len(signal) for signal in recordings()["X"]]
    expected = []
    for i, length in enumerate(lengths):
        for begin in range(0, length - 99, 50):
            inside = [
                b for b in range(blocks) if b * length <= blocks * begin and blocks * (begin + 100) <= (b + 1) * length
            ]
            expected += [(i, b) for b in inside]
    samples = load(blocks=blocks)
    assert samples.recording.tolist() == [i * blocks + b for i, b in expected]
    split(samples, by_column(samples, 4, np.random.default_rng(0)), np.random.default_rng(0))


def test_fewer_clients_are_some_of_the_arms(folder):
    import_watch(folder)
    everyone = {tuple(row) for row in load().features.tolist()}
    some = [load(clients=3, seed=seed) for seed in range(8)]
    for samples in some:
        assert np.unique(samples.owner).tolist() == [0, 1, 2]
        assert {tuple(row) for row in samples.features.tolist()} < everyone
    assert len({len(samples.labels) for samples in some}) > 1  # not always the same arms


def test_the_file_of_an_installed_package_is_found_without_importing_it(folder, tmp_path, monkeypatch):
    package = tmp_path / "packages" / "seglearn"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path / "packages")
    assert installed() is None
    (package / "data" / FILE).write_bytes((folder / "data" / FILE).read_bytes())
    assert installed() == package / "data" / FILE
    import_watch()
    assert len(np.unique(load().recording)) == 28


def test_without_the_package_the_message_says_what_to_do(monkeypatch):
    monkeypatch.setattr(smartwatch, "installed", lambda: None)
    with pytest.raises(DataError, match="pip install seglearn"):
        import_watch()
    with pytest.raises(DataError, match="run `fedmule data watch` first"):
        load()


def test_wrong_and_missing_files(folder, tmp_path):
    with pytest.raises(DataError, match="not a folder"):
        import_watch(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=f"holds no {FILE}"):
        import_watch(tmp_path / "empty")
    with (folder / "data" / FILE).open("ab") as file:
        file.write(b"more")
    with pytest.raises(DataError, match="is not the file that seglearn publishes: its SHA-256 checksum is"):
        import_watch(folder)
    assert not (tmp_path / "cache").exists()


class Evil:
    def __reduce__(self):
        return os.mkdir, ("owned",)


def test_no_file_runs_code(tmp_path, monkeypatch):
    """Even with the right checksum."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"mine\.npy: refused: unpickling would run"):
        read_recordings(content_of({**recordings(), "X": Evil()}), "mine.npy")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("change", [{"X": [np.zeros((700, 5))] * 28}, {"y": np.zeros(3)}, {"subject": None}])
def test_other_contents_are_reported(change):
    with pytest.raises(DataError, match=r"mine\.npy"):
        read_recordings(content_of({**recordings(), **change}), "mine.npy")
    with pytest.raises(DataError, match="does not hold recordings as seglearn stores them"):
        read_recordings(content_of(recordings())[:300], "mine.npy")


def test_a_damaged_cache_is_reported(folder, tmp_path):
    kept = import_watch(folder)
    kept.write_bytes(kept.read_bytes()[:-50])
    with pytest.raises(DataError, match=r"watch\.npz is damaged .* run `fedmule data watch` again"):
        load()


def test_the_real_recordings():
    if installed() is None:
        pytest.skip("seglearn is not installed")
    import_watch()
    samples, card = load(clients=20), card_of("watch")
    assert samples.features.shape == (card.samples, card.feature_count)
    assert len(np.unique(samples.recording)) == 140
    assert samples.owner.max() == card.clients - 1
    assert len(np.unique(samples.labels)) == len(card.classes)
