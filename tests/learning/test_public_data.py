"""The data sets in the box, and the cards of all public data sets."""

import gzip
import shutil

import numpy as np
import pytest

from fedmule.learning.data import catalogue
from fedmule.learning.data.catalogue import IN_THE_BOX, PUBLIC, TO_FETCH, card_of, list_text, stored
from fedmule.learning.data.image_sets import IMAGE_SETS
from fedmule.learning.data.public import digits, sonar
from fedmule.learning.errors import DataError


def raw(name):
    """The lines of a file in the box, after its header."""
    text = gzip.decompress((catalogue.BOX / f"{name}.csv.gz").read_bytes()).decode()
    return [line.split(",") for line in text.splitlines()[1:]]


def test_digits_are_images_with_pixels_from_0_to_1():
    samples = digits()
    assert samples.features.shape == (1797, 64)
    assert samples.shape == (1, 8, 8)
    assert np.bincount(samples.labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    pixels = np.array([line[:-1] for line in raw("digits")], dtype=float)
    assert (pixels.min(), pixels.max()) == (0, 16)
    assert (samples.features == (pixels / 16).astype(np.float32)).all()
    assert samples.labels.tolist() == [int(line[-1]) for line in raw("digits")]
    # The first image is a zero: its two middle columns are empty half-way down.
    assert samples.labels[0] == 0
    assert samples.features[0].reshape(8, 8)[3:5, 3:5].sum() == 0


def test_sonar_is_the_published_set():
    """As its description says: 111 echoes of a cylinder, 97 of a rock, 60 numbers from 0 to 1 each."""
    samples = sonar()
    assert samples.features.shape == (208, 60)
    assert np.bincount(samples.labels).tolist() == [111, 97]
    assert samples.features.min() >= 0
    assert samples.features.max() == 1
    np.testing.assert_allclose(samples.features[0, :4], [0.0200, 0.0371, 0.0428, 0.0207])
    np.testing.assert_allclose(samples.features[-1, -4:], [0.0040, 0.0036, 0.0061, 0.0115])
    assert (samples.labels[0], samples.labels[-1]) == (1, 0)  # a rock, a mine


@pytest.mark.parametrize(("load", "least"), [(digits, 0.92), (sonar, 0.65)])
def test_a_linear_classifier_learns_them(load, least):
    """Ridge regression on three quarters, checked on the rest: about 94 and 75 %."""
    samples = load()
    order = np.random.default_rng(0).permutation(len(samples.labels))
    train, test = np.split(order, [3 * len(order) // 4])
    x = np.column_stack([samples.features, np.ones(len(order))]).astype(float)
    targets = np.eye(samples.classes)[samples.labels[train]]
    weights = np.linalg.solve(x[train].T @ x[train] + 0.3 * np.eye(x.shape[1]), x[train].T @ targets)
    assert ((x[test] @ weights).argmax(axis=1) == samples.labels[test]).mean() > least


@pytest.mark.parametrize("name", PUBLIC)
def test_every_card_states_what_the_data_are_and_their_licence(name):
    card = card_of(name)
    for text in (card.title, card.sample, card.source, card.licence, card.citation):
        assert text
    assert card.samples
    assert card.feature_count
    assert len(card.classes) >= 2
    assert (name in IN_THE_BOX) <= bool(card.sha256 and card.changes)


def test_cards_of_image_sets_agree_with_what_is_fetched():
    assert set(TO_FETCH) == set(IMAGE_SETS)
    for name, image_set in IMAGE_SETS.items():
        assert card_of(name).shape == image_set.shape
        assert card_of(name).feature_count == np.prod(image_set.shape)
        assert card_of(name).title == image_set.title


def test_a_changed_file_in_the_box_is_reported(tmp_path, monkeypatch):
    shutil.copytree(catalogue.BOX, tmp_path / "box")
    monkeypatch.setattr(catalogue, "BOX", tmp_path / "box")
    file = tmp_path / "box/sonar.csv.gz"
    text = gzip.decompress(file.read_bytes()).decode()
    file.write_bytes(gzip.compress(text.replace("0.0371", "0.0372", 1).encode()))
    with pytest.raises(DataError, match=r"sonar\.csv\.gz: its content is not what sonar\.card\.toml says"):
        sonar()
    file.write_bytes(gzip.compress(text.replace("band_3,", "band_0,", 1).encode()))
    with pytest.raises(DataError, match="there is no 'band_3'; 'band_0' is not on the card"):
        sonar()
    file.write_bytes(gzip.compress(text.encode())[:-20])
    with pytest.raises(DataError, match=r"sonar\.csv\.gz: cannot be read"):
        sonar()


def test_the_list_says_where_each_data_set_is(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDMULE_DATA", str(tmp_path))
    (tmp_path / "mnist.npz").touch()
    lines = {line.split()[0]: line for line in list_text().splitlines()}
    assert list(lines) == ["name", *PUBLIC]
    assert "1,797" in lines["digits"]
    assert "CC BY 4.0" in lines["sonar"]
    assert "in the box" in lines["sonar"]
    assert "in the cache" in lines["mnist"]
    assert "fedmule data cifar10" in lines["cifar10"]
    assert "fedmule data watch (needs seglearn)" in lines["watch"]
    assert set(stored("digits")) == {"digits", "digits.card.toml"}
    assert all(path.is_file() for name in IN_THE_BOX for path in stored(name).values())
