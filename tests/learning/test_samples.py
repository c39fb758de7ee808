"""Data files: public image sets and your own."""

import gzip
import io
import os
import pickle
import tarfile

import numpy as np
import pandas as pd
import pytest
from making import from_file

from fedmule.learning.data import image_sets
from fedmule.learning.data.image_sets import IMAGE_SETS, import_from, load, read_idx
from fedmule.learning.errors import DataError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDMULE_DATA", str(tmp_path / "cache"))


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.astype(np.uint8).tobytes()


@pytest.fixture
def tiny(monkeypatch):
    """Image sets of a few images, with matching checksums, in place of the real ones."""
    import hashlib

    generator = np.random.default_rng(0)
    contents = {}
    for name, count in (("train", 6), ("t10k", 3)):
        contents[f"{name}-images-idx3-ubyte"] = idx(generator.integers(0, 256, (count, 28, 28)))
        contents[f"{name}-labels-idx1-ubyte"] = idx(generator.integers(0, 10, count))
    batches = {}
    for name in image_sets.CIFAR_NAMES:
        rows = generator.integers(0, 256, (2, 3073)).astype(np.uint8)
        rows[:, 0] %= 10
        batches[name] = rows.tobytes()
    for name, files in (("mnist", contents), ("cifar10", batches)):
        sums = {file: hashlib.md5(files[file]).hexdigest() for file in IMAGE_SETS[name].files}
        monkeypatch.setitem(
            IMAGE_SETS, name, image_sets.ImageSet("Tiny", IMAGE_SETS[name].shape, sums, ("file:///nowhere/",))
        )
    return contents, batches


def test_real_mnist_is_taken_checked_and_loaded(mnist_folder):
    import_from("mnist", mnist_folder)
    images, labels = load("mnist")
    assert images.shape == (70_000, 1, 28, 28)
    assert np.bincount(labels).tolist() == [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958]
    assert images[0].sum() == 27525  # the first training image, a five
    assert labels[0] == 5


@pytest.mark.parametrize("form", ["plain", "gz", "dots"])
def test_idx_files_in_any_form(tiny, tmp_path, form):
    folder = tmp_path / "files" / "deeper"
    folder.mkdir(parents=True)
    for name, content in tiny[0].items():
        if form == "gz":
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / (name.replace("-idx", ".idx") if form == "dots" else name)).write_bytes(content)
    import_from("mnist", tmp_path / "files")
    images, labels = load("mnist")
    assert images.shape == (9, 1, 28, 28)
    assert images[6:].tobytes() == tiny[0]["t10k-images-idx3-ubyte"][16:]
    assert labels[:6].tobytes() == tiny[0]["train-labels-idx1-ubyte"][8:]


def python_batch(content):
    rows = np.frombuffer(content, np.uint8).reshape(-1, 3073)
    batch = {b"labels": rows[:, 0].tolist(), b"data": rows[:, 1:].copy(), b"batch_label": b"a batch"}
    return pickle.dumps(batch, protocol=2)


@pytest.mark.parametrize("form", ["binary", "python", "binary archive", "python archive"])
def test_cifar_in_any_layout(tiny, tmp_path, form):
    folder = tmp_path / "files"
    folder.mkdir()
    files = {
        name if "binary" in form else name.removesuffix(".bin"): content if "binary" in form else python_batch(content)
        for name, content in tiny[1].items()
    }
    if "archive" in form:
        with tarfile.open(folder / f"cifar-10-{form.split()[0]}.tar.gz", "w:gz") as tar:
            for name, content in files.items():
                info = tarfile.TarInfo(f"cifar-10-batches/{name}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    else:
        for name, content in files.items():
            (folder / name).write_bytes(content)
    import_from("cifar10", folder)
    images, labels = load("cifar10")
    rows = np.concatenate([np.frombuffer(content, np.uint8).reshape(-1, 3073) for content in tiny[1].values()])
    assert (images.reshape(12, -1) == rows[:, 1:]).all()
    assert (labels == rows[:, 0]).all()


class Evil:
    def __reduce__(self):
        return os.mkdir, ("owned",)


def test_a_pickle_that_would_run_code_is_refused(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({b"labels": [], b"data": Evil()}, protocol=2))
    with pytest.raises(DataError, match="refused: unpickling would run"):
        import_from("cifar10", tmp_path)
    assert not (tmp_path / "owned").exists()


def test_wrong_missing_and_broken_files(tiny, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    with pytest.raises(DataError, match="holds no train-images"):
        import_from("mnist", folder)
    with pytest.raises(DataError, match="not a folder"):
        import_from("mnist", tmp_path / "nowhere")
    for name, content in tiny[0].items():
        (folder / name).write_bytes(content)
    changed = bytearray(tiny[0]["t10k-labels-idx1-ubyte"])
    changed[-1] ^= 1
    (folder / "t10k-labels-idx1-ubyte").write_bytes(changed)
    with pytest.raises(DataError, match="t10k-labels-idx1-ubyte is not the published Tiny file: its MD5 checksum"):
        import_from("mnist", folder)
    (folder / "t10k-labels-idx1-ubyte").unlink()
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(bytes(changed))[:-9])
    with pytest.raises(DataError, match="not a complete gzip file"):
        import_from("mnist", folder)
    with pytest.raises(DataError, match="run `fedmule data mnist` first"):
        load("mnist")
    assert not (tmp_path / "cache").exists()  # no partial file is left
    with pytest.raises(DataError, match="cut off or too long"):
        read_idx(tiny[0]["train-images-idx3-ubyte"][:-1], "train-images-idx3-ubyte")
    with pytest.raises(DataError, match="not an idx file"):
        read_idx(b"PK\x03\x04", "x")


def test_without_a_network_the_message_says_what_to_do(tiny):
    with pytest.raises(DataError, match="fedmule data mnist --from FOLDER") as caught:
        image_sets.fetch("mnist")
    assert "file:///nowhere/" in str(caught.value)


def test_download_from_the_first_mirror_that_works(tiny, tmp_path, monkeypatch):
    for name, content in tiny[0].items():
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
    old = IMAGE_SETS["mnist"]
    mirrors = ("file:///nowhere/", f"file://{tmp_path}/")
    monkeypatch.setitem(IMAGE_SETS, "mnist", image_sets.ImageSet("Tiny", old.shape, old.files, mirrors))
    seen = []
    image_sets.fetch("mnist", lambda what, done, total: seen.append((what, done, total)))
    assert load("mnist")[0].shape == (9, 1, 28, 28)
    assert {what for what, _, _ in seen} == {f"{name}.gz" for name in old.files}
    assert all(done == total for _, done, total in seen)


# --- your own files ------------------------------------------------------------------------------------------


def read(path, **keys):
    return from_file(3, np.random.default_rng(0), str(path), **keys)


@pytest.fixture
def table():
    return pd.DataFrame(
        {"who": ["b", "a", "b", "c"], "x": [1.0, 2.0, 3.0, 4.0], "kind": [7, 9, 7, 8], "y": [5, 6, 7, 8]}
    )


@pytest.mark.parametrize("form", ["csv", "parquet", "npz"])
def test_your_own_files(table, tmp_path, form):
    path = tmp_path / f"mine.{form}"
    if form == "csv":
        table.to_csv(path, index=False)
    elif form == "parquet":
        table.to_parquet(path)
    else:
        who = table["who"].to_numpy(dtype="U1")
        np.savez(path, features=table[["x", "y"]], kind=table["kind"], who=who)
    samples = read(path, label="kind", client="who")
    assert samples.features.tolist() == [[1, 5], [2, 6], [3, 7], [4, 8]]
    assert samples.labels.tolist() == [0, 2, 0, 1]
    assert samples.classes == 3
    assert samples.owner.tolist() == [1, 0, 1, 2]


@pytest.mark.parametrize("form", ["csv", "npz"])
def test_a_column_named_client_assigns_the_samples(table, tmp_path, form):
    path, client = tmp_path / f"mine.{form}", table["who"].to_numpy(dtype="U1")
    if form == "csv":
        table.rename(columns={"who": "client", "kind": "label"}).to_csv(path, index=False)
    else:
        np.savez(path, features=table[["x", "y"]], label=table["kind"], client=client)
    samples = read(path)
    assert samples.features.tolist() == [[1, 5], [2, 6], [3, 7], [4, 8]]
    assert samples.owner.tolist() == [1, 0, 1, 2]
    with pytest.raises(DataError, match="'client' is neither" if form == "csv" else "no array 'x'"):
        read(path, client="x")


@pytest.mark.parametrize(
    ("content", "keys", "message"),
    [
        ("x,label\n1,0\nnan,1\n", {}, "row 1, feature 0 is not a finite number"),
        ("x,label\n1,0\n2,\n", {}, "row 1 has no label"),
        ("x,kind\n1,0\n", {}, "no column 'label'"),
        ("x,label\n1,0\n", {"client": "who"}, "no column 'who'"),
        ("x,label\n1,1\nred,0\n", {}, "not numeric: 'red' in row 1"),
        ("label\n0\n", {}, "no feature columns"),
        ("x,label\n", {}, "holds no samples"),
    ],
)
def test_invalid_files_are_reported(tmp_path, content, keys, message):
    path = tmp_path / "mine.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        read(path, **keys)
    assert "mine.csv" in str(caught.value)


def test_unreadable_files_are_reported(tmp_path):
    for name in ("mine.npz", "mine.parquet"):
        (tmp_path / name).write_bytes(b"nonsense")
        with pytest.raises(DataError, match="cannot be read"):
            read(tmp_path / name)
    np.savez(tmp_path / "short.npz", features=np.zeros((3, 2)), label=np.zeros(2))
    with pytest.raises(DataError, match="differ in length"):
        read(tmp_path / "short.npz")
    np.savez(tmp_path / "objects.npz", features=np.array([object()]), label=np.zeros(1), allow_pickle=True)
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / "objects.npz")
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "none.csv")
    (tmp_path / "mine.txt").touch()
    with pytest.raises(DataError, match=r"must be an \.npz"):
        read(tmp_path / "mine.txt")
