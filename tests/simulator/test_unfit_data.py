"""Data that do not fit are reported with status 2 before a run begins."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from unfit import Run, own

from fedmule.learning.data.image_sets import IMAGE_SETS
from fedmule.simulator.cli import main

# --- data sets of your own -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("labels[7] = 3", "row 7 has label 3; labels must be 0 to 2"),
        ("labels[7] = -1", "row 7 has label -1; labels must be 0 to 2"),
        ("labels = labels + 0.5", "labels must be whole numbers (int64), not float64"),
        ("labels = labels[:-1]", "labels must have the shape (100,), one per sample, not (99,)"),
        ("labels = np.eye(3, dtype=int)[labels]", "one per sample, not (100, 3)"),
        ("features[3, 2] = np.nan", "row 3, feature 2 is not a finite number"),
        ("features[3, 2] = -np.inf", "row 3, feature 2 is not a finite number"),
        ("features[3, 2] = 1e39", "too large for float32"),
        ("features = features[:, 0]", "features must have the shape [samples, features], not (100,)"),
        (
            "features = features.reshape(100, 5, 1)",
            "flatten each image to a row and pass the shape of an image as `shape`",
        ),
        ("features = features.astype(str)", "features must be numbers, not <U"),
        ("features, labels, owner = features[:0], labels[:0], None", "there are no samples"),
        ("classes = 1", "classes must be a whole number, 2 or more, not 1"),
        ("classes = 3.0", "classes must be a whole number, 2 or more, not 3.0"),
        ("owner[0] = -1", "owner must hold one whole number, 0 or more, for each of the 100 samples"),
        ("owner = owner[:-1]", "owner must hold one whole number"),
        ("shape = (1, 2, 2)", "samples of shape (1, 2, 2) have 4 features, not 5"),
    ],
)
def test_faulty_samples_of_a_plugin(refused: Run, change: str, message: str) -> None:
    line = refused(own('dataset={ kind = "unfit_parts:samples"', change))
    assert line.startswith('smoke: learning.dataset = "unfit_parts:samples": ')
    assert message in line


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("labels[7] = 3", "row 7 has label 3; labels must be 0 to 2"),
        ("labels[7] = -1", "row 7 has label -1; labels must be 0 to 2"),
        ("labels = labels.int()", "labels must be whole numbers (int64), not torch.int32"),
        ("features[3, 2] = torch.inf", "row 3, feature 2 is not a finite number"),
        ("features = features.double()", "features must be float32, not torch.float64"),
        ("features = features.numpy()", "must be torch tensors"),
        ("features = features[:-1]", "labels must have the shape (99,), one per sample"),
        ("shape = (2, 2)", "have 4 features, not 5"),
        ("first[-1] += 1", "first must increase from 0 to the number of samples, 100"),
        ("first[1:3] = first[2:0:-1].copy()", "first must increase from 0"),
        ("first = first[:-1]", "first must be a numpy array of 6 whole numbers"),
        ("train_count = train_count[:-1]", "train_count must be a numpy array of 5 whole numbers"),
        ("train_count = train_count / 1", "train_count must be a numpy array"),
        ("train_count[0] = 0", "client 0 has 0 training samples; every client needs at least one"),
        ("train_count[1] = 20", "client 1 has 0 test samples; every client needs at least one"),
        ("validation_count = np.full(5, 5)", "client 0 has 0 test samples"),
        ("validation_count = np.full(4, 1)", "validation_count must be a numpy array of 5 whole numbers"),
    ],
)
def test_faulty_data_with_their_own_partition(refused: Run, change: str, message: str) -> None:
    line = refused(own('dataset={ kind = "unfit_parts:shared_out"', change))
    assert line.startswith('smoke: learning.dataset = "unfit_parts:shared_out": ')
    assert message in line


def test_data_with_their_own_partition_accept_no_other(refused: Run) -> None:
    for key in ("partition=iid", "max_train_samples=5"):
        assert "leave learning.partition and" in refused('learning.dataset="unfit_parts:shared_out"', f"learning.{key}")


def test_a_data_set_that_returns_no_samples(refused: Run) -> None:
    line = refused('learning.dataset="unfit_parts:no_samples"')
    assert "must make learning.samples.Samples or learning.data.ClientData, not list" in line


@pytest.mark.parametrize("change", ["", "features, labels = features.tolist(), labels.astype('int8')"])
def test_samples_in_other_types_are_accepted(accepted: Callable[..., None], change: str) -> None:
    accepted(own('dataset={ kind = "unfit_parts:samples"', change))


# --- files of your own ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("column", "kind", "value", "message"),
    [
        ("label", "float64", np.nan, "row 5 has no label"),
        ("label", "float64", np.inf, "row 5 has no label: inf"),
        ("label", "Int64", pd.NA, "row 5 has no label"),
        ("label", "object", None, "row 5 has no label"),
        ("label", "str", "", "row 5 has no label"),
        ("b", "float64", np.nan, "row 5, feature 1 is not a finite number"),
        ("b", "float64", -np.inf, "row 5, feature 1 is not a finite number"),
        ("b", "Float64", pd.NA, "row 5, feature 1 is not a finite number"),
        ("b", "float64", 1e300, "row 5, feature 1 is not a finite number (or too large for float32)"),
    ],
)
def test_missing_values_in_a_table(
    refused: Run, table: pd.DataFrame, form: str, column: str, kind: str, value: object, message: str
) -> None:
    if kind in ("str", "object"):
        table[column] = table[column].astype(str)
    table[column] = table[column].astype(kind)
    table.loc[5, column] = value
    getattr(table, f"to_{form}")(f"mine.{form}", **({"index": False} if form == "csv" else {}))
    line = refused(f'learning.dataset={{ kind = "file", path = "{Path.cwd()}/mine.{form}" }}')
    assert f'learning.dataset = "file": {Path.cwd()}/mine.{form}: ' in line
    assert message in line


NAN = np.where(np.arange(60) == 5, np.nan, np.arange(60) % 3)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"label": NAN}, "row 5 has no label: nan"),
        ({"label": np.where(NAN == 1, "", "a")}, "row 1 has no label: ''"),
        (
            {"label": np.eye(3)[np.arange(60) % 3]},
            "label must hold one value per sample, not an array of shape (60, 3)",
        ),
        ({"label": np.float64(3)}, "label must hold one value per sample, not an array of shape ()"),
        ({"label": np.zeros(60)}, "classes must be a whole number, 2 or more, not 1"),
        ({"features": np.float64(3)}, "features must have the shape [samples, features]"),
        ({"features": np.stack([NAN, NAN], axis=1)}, "row 5, feature 0 is not a finite number"),
        ({"features": np.full((60, 2), "1")}, "features must be numbers, not <U1"),
        ({"features": np.ones((60, 2)) + 1j}, "features must be numbers, not complex128"),
        ({"features": np.ones((0, 2)), "label": np.ones(0)}, "holds no samples"),
    ],
)
def test_faults_in_an_npz_file(refused: Run, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez("mine.npz", **{"features": np.ones((60, 2)), "label": np.arange(60) % 3, **arrays})
    assert message in refused(f'learning.dataset={{ kind = "file", path = "{Path.cwd()}/mine.npz" }}')


def test_broken_npz_files(refused: Run) -> None:
    np.savez_compressed("mine.npz", features=np.random.default_rng(0).normal(size=(60, 2)), label=np.arange(60) % 3)
    complete = Path("mine.npz").read_bytes()
    np.save("array.npy", np.ones(3))
    corrupted = complete[:100] + bytes(200) + complete[300:]
    for content in (
        b"",
        complete[:50],
        complete[: len(complete) // 2],
        complete[:-9],
        corrupted,
        Path("array.npy").read_bytes(),
    ):
        Path("mine.npz").write_bytes(content)
        line = refused(f'learning.dataset={{ kind = "file", path = "{Path.cwd()}/mine.npz" }}')
        assert "mine.npz: cannot be read" in line


# --- image sets ----------------------------------------------------------------------------------------------


def test_broken_copies_of_image_sets(desk: Path, refused: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Truncated, corrupted and with other content: as local files, and in the cache."""
    content = bytes([0, 0, 8, 1, 0, 0, 0, 200]) + bytes(range(200))
    packed = gzip.compress(content)
    corrupted = packed[:20] + bytes([packed[20] ^ 255]) + packed[21:]
    forms = {
        "": [
            (content, "is not the published MNIST file: its MD5 checksum is"),
            (content[:-5], "is not the published MNIST file: its MD5 checksum is"),
        ],
        ".gz": [(packed[:-12], "is not a complete gzip file"), (corrupted, "is not a complete gzip file")],
    }
    for suffix, contents in forms.items():
        file = desk / f"train-images-idx3-ubyte{suffix}"
        for broken, message in contents:
            file.write_bytes(broken)
            assert main(["data", "mnist", "--from", "."]) == 2
            said = capsys.readouterr().err
            assert "train-images-idx3-ubyte" in said
            assert message in said
        file.unlink()
    assert not (desk / "cache").exists()

    (desk / "cache").mkdir()
    np.savez(desk / "cache/mnist.npz", images=np.zeros((30, *IMAGE_SETS["mnist"].shape), np.uint8), labels=np.zeros(30))
    complete = (desk / "cache/mnist.npz").read_bytes()
    for broken in (b"", complete[: len(complete) // 2], complete[:-30], complete[:400] + b"\1\2\3" + complete[403:]):
        (desk / "cache/mnist.npz").write_bytes(broken)
        line = refused("learning.dataset=mnist")
        assert "mnist.npz is damaged" in line
        assert "run `fedmule data mnist` again" in line
    np.savez(desk / "cache/mnist.npz", images=np.zeros((30, 28, 28), np.uint8), labels=np.zeros(30, np.uint8))
    assert "is damaged (images of shape (30, 28, 28))" in refused("learning.dataset=mnist")
