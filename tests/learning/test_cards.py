"""Cards, and data files that differ from theirs."""

import gzip
import hashlib

import numpy as np
import pandas as pd
import pytest
from making import from_file

from fedmule.learning.data.card import card_path, read_card
from fedmule.learning.data.own_file import check_header, columns_of
from fedmule.learning.errors import DataError

TABLE = pd.DataFrame(
    {
        "y": [5, 6, 7, 8],
        "kind": ["wet", "dry", "wet", "dry"],
        "x": [1.0, 2.0, 3.0, 4.0],
        "who": ["b", "a", "b", "a"],
        "walk": [3, 1, 3, 2],
    }
)
CARD = """
samples = 4
features = ["x", "y"]
scale = 2
label = "kind"
classes = ["wet", "dry", "icy"]
client = "who"
recording = "walk"
"""


def write(folder, form="csv", card=CARD, table=TABLE):
    path = folder / f"readings.{form}"
    if form == "parquet":
        table.to_parquet(path)
    elif form == "npz":
        strings = {name: table[name].to_numpy(dtype="U3") for name in ("kind", "who")}
        np.savez(path, features=table[["x", "y"]], walk=table["walk"], **strings)
    else:
        table.to_csv(path, index=False)
    (folder / "readings.card.toml").write_text(card)
    return path


def read(path, **keys):
    return from_file(3, np.random.default_rng(0), str(path), **keys)


@pytest.mark.parametrize("form", ["csv", "csv.gz", "parquet", "npz"])
def test_a_card_names_the_columns_and_the_order_of_classes(tmp_path, form):
    path = write(tmp_path, form)
    check_header(str(path), None, None, None)
    samples = read(path)
    assert samples.features.tolist() == [[0.5, 2.5], [1, 3], [1.5, 3.5], [2, 4]]
    assert samples.labels.tolist() == [0, 1, 0, 1]
    assert samples.classes == 3  # though none is icy
    assert samples.owner.tolist() == [1, 0, 1, 0]
    assert samples.recording.tolist() == [2, 0, 2, 1]
    assert read(path, label="kind").labels.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("form", ["csv", "csv.gz", "parquet"])
def test_other_columns_than_the_card_says_are_all_named(tmp_path, form):
    path = write(tmp_path, form, table=TABLE.rename(columns={"x": "z"}).assign(client=1))
    said = "has other columns than readings.card.toml says: there is no 'x'; 'z', 'client' is not on the card"
    for look in (read, lambda path: check_header(str(path), None, None, None)):
        with pytest.raises(DataError, match=said) as caught:
            look(path)
        assert str(caught.value).startswith(str(path))


def test_arrays_of_an_npz_file_are_its_columns(tmp_path):
    path = write(tmp_path, "npz", CARD.replace('"who"', '"whom"'))
    said = "there is no 'whom'; 'who' is not on the card"
    for look in (read, lambda path: check_header(str(path), None, None, None)):
        with pytest.raises(DataError, match=said):
            look(path)
    with pytest.raises(DataError, match=r"has 2 features, not 5 as readings\.card\.toml says"):
        read(write(tmp_path, "npz", CARD.replace('["x", "y"]', "5")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("samples = 4", "samples = 5"), "has 4 samples, not 5 as readings.card.toml says"),
        (("scale = 2", "shape = [1, 3, 1]"), r"samples of shape \(1, 3, 1\) have 3 features, not 2"),
        (('"dry", "icy"', '"icy"'), "row 1 has label 'dry', which is not among the classes in readings.card.toml"),
        (('["x", "y"]', "3"), "there are 2 features, not 3"),
        (("scale = 2", f'sha256 = "{"0" * 64}"'), "its content is not what readings.card.toml says: its SHA-256"),
    ],
)
def test_other_content_than_the_card_says_is_reported(tmp_path, change, message):
    path = write(tmp_path, card=CARD.replace(*change))
    with pytest.raises(DataError, match=message) as caught:
        read(path)
    assert "readings.csv" in str(caught.value)


@pytest.mark.parametrize("form", ["csv", "csv.gz"])
def test_the_checksum_is_of_the_uncompressed_content(tmp_path, form):
    path = write(tmp_path, form)
    content = gzip.decompress(path.read_bytes()) if form == "csv.gz" else path.read_bytes()
    write(tmp_path, form, f'{CARD}\nsha256 = "{hashlib.sha256(content).hexdigest()}"')
    assert len(read(path).labels) == 4


def test_scenario_and_card_must_agree(tmp_path):
    with pytest.raises(DataError, match=r"label is 'x' in the scenario and 'kind' in .*\.card\.toml; client is 'y'"):
        read(write(tmp_path), label="x", client="y")


def test_a_card_without_features_leaves_the_other_columns_to_them(tmp_path):
    table = TABLE.rename(columns={"who": "client"})
    path = write(tmp_path, card='label = "kind"\nrecording = "walk"', table=table)
    samples = read(path)
    assert samples.features.tolist() == [[5, 1], [6, 2], [7, 3], [8, 4]]
    assert samples.owner.tolist() == [1, 0, 1, 0]
    assert samples.labels.tolist() == [1, 0, 1, 0]  # in sorted order


def test_everything_wrong_with_a_card_is_reported_at_once(tmp_path):
    path = tmp_path / "readings.card.toml"
    path.write_text(
        'titel = "x"\nsamples = 0\nfeatures = ["a", "a"]\nscale = -1\nclasses = [1]\nsha256 = "12"\nlabel = ""\n'
        "shape = [1.5]\n"
    )
    with pytest.raises(DataError) as caught:
        read_card(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: titel: unknown key, did you mean title?; samples = 0: must be a whole number")
    for name in ("features", "scale", "classes", "sha256", "shape", "label"):
        assert f"; {name} = " in said
    path.write_text("label = ")
    with pytest.raises(DataError, match="is not a card in TOML"):
        read_card(path)


def test_where_a_card_is(tmp_path):
    names = {"a.csv": "a", "a.b.csv.gz": "a.b", "a.parquet": "a", "a.npz": "a"}
    for name, stem in names.items():
        assert card_path(tmp_path / name) == tmp_path / f"{stem}.card.toml"


def test_unreadable_headers_are_reported(tmp_path):
    for name in ("mine.npz", "mine.parquet", "mine.csv.gz"):
        (tmp_path / name).write_bytes(b"nonsense")
        with pytest.raises(DataError, match=f"{name}: cannot be read"):
            columns_of(tmp_path / name)


def test_recordings_without_a_card(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("label,x,recording,client\n0,1,5,a\n1,2,5,a\n0,3,2,b\n")
    assert read(path).recording.tolist() == [1, 1, 0]
    path.write_text("label,x,recording,client\n0,1,5,a\n1,2,5,b\n0,3,2,b\n")
    with pytest.raises(DataError, match="the recording of row 0 belongs to several clients"):
        read(path)
