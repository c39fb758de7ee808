"""Public image sets: download or import, verification, and the local cache."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmule.learning.data.arrays_only import unpickle_arrays
from fedmule.learning.data.cache import UNREADABLE, cached, damaged, load_arrays, store
from fedmule.learning.errors import DataError

Bytes = NDArray[np.uint8]
Progress = Callable[[str, int, int | None], None]  # (file, bytes so far, total bytes if known)


@dataclass(frozen=True)
class ImageSet:
    """A public image set: its files with the MD5 of their uncompressed content, and their mirrors."""

    title: str
    shape: tuple[int, int, int]  # channels, height, width
    files: dict[str, str]  # name -> MD5 of the content
    mirrors: tuple[str, ...]  # folders with the gzipped files, or with one archive of all files
    archive: str = ""  # file name of that archive


IDX_NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
CIFAR_NAMES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")

IMAGE_SETS = {
    "mnist": ImageSet(
        "MNIST",
        (1, 28, 28),
        dict(
            zip(
                IDX_NAMES,
                (
                    "6bbc9ace898e44ae57da46a324031adb",
                    "a25bea736e30d166cdddb491f175f624",
                    "2646ac647ad5339dbf082846283269ea",
                    "27ae3e4e09519cfbb04c329615203637",
                ),
                strict=True,
            )
        ),
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "http://yann.lecun.com/exdb/mnist/",
        ),
    ),
    "fashion_mnist": ImageSet(
        "Fashion-MNIST",
        (1, 28, 28),
        dict(
            zip(
                IDX_NAMES,
                (
                    "f4a8712d7a061bf5bd6d2ca38dc4d50a",
                    "9018921c3c673c538a1fc5bad174d6f9",
                    "8181f5470baa50b63fa0f6fddb340f0a",
                    "15d484375f8d13e6eb1aabb0c3f46965",
                ),
                strict=True,
            )
        ),
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        ),
    ),
    "cifar10": ImageSet(
        "CIFAR-10",
        (3, 32, 32),
        dict(
            zip(
                CIFAR_NAMES,
                (
                    "5dd7e06a14cb22eb9f671a540d1b7c25",
                    "5ea93a67294ea407fff1d09f752e9692",
                    "942cd6a4bcdd0dd3c604fbe906cb4421",
                    "ae636b3ba5c66a11e91e8cb52e771fcb",
                    "53f37980c15c3d472c316c40844f3f0d",
                    "803d5f7f4d78ea53de84dbe85f74fb6d",
                ),
                strict=True,
            )
        ),
        (
            "https://www.cs.toronto.edu/~kriz/",
            "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/",
        ),
        archive="cifar-10-binary.tar.gz",
    ),
}


def load(name: str) -> tuple[Bytes, Bytes]:
    """Load images [N,c,h,w] and labels [N] of a cached set: the published training part, then the test part."""
    if not cached(name).exists():
        raise DataError(f"{IMAGE_SETS[name].title} is not on this computer yet: run `fedmule data {name}` first")
    try:
        images, labels = load_arrays(name, "images", "labels")
        if images.shape != (len(labels), *IMAGE_SETS[name].shape):
            raise ValueError(f"images of shape {images.shape}")
        return images, labels
    except UNREADABLE as error:
        raise damaged(name, error) from None


def fetch(name: str, progress: Progress = lambda *_: None) -> Path:
    """Download a set from the first mirror that works, verify it, and cache it; return the cached file."""
    image_set = IMAGE_SETS[name]
    failures = []
    for mirror in image_set.mirrors:
        try:
            if image_set.archive:
                archive = _download(mirror + image_set.archive, progress)
                return _cache(name, _members(archive, image_set.files).__getitem__)
            return _cache(name, partial(_fetch_file, mirror, progress))
        except (OSError, DataError, KeyError, tarfile.TarError) as error:
            failures.append(f"  {mirror}: {error}")
    wanted = image_set.archive or ", ".join(f"{file}.gz" for file in image_set.files)
    raise DataError(
        f"{image_set.title} could not be downloaded:\n" + "\n".join(failures) + "\n"
        f"Download {wanted} on a computer with internet access, copy it into a folder on this one, and run\n"
        f"  fedmule data {name} --from FOLDER"
    )


def _fetch_file(mirror: str, progress: Progress, file: str) -> bytes:
    return _gunzip(_download(f"{mirror}{file}.gz", progress), file)


def import_from(name: str, folder: Path) -> Path:
    """Import a set from files in a folder, verify it, and cache it; return the cached file.

    Reads idx files, gzipped or not, and CIFAR's binary and Python layouts, unpacked or as archives.
    """
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder")
    return _cache(name, lambda file: _find(folder, file))


def _cache(name: str, content_of: Callable[[str], bytes]) -> Path:
    """Verify the content of every file, then write the set to the cache in one atomic step."""
    image_set = IMAGE_SETS[name]
    contents = {}
    for file, md5 in image_set.files.items():
        content = content_of(file)
        found = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if found != md5:
            raise DataError(
                f"{file} is not the published {image_set.title} file: its MD5 checksum is {found}, not {md5}"
            )
        contents[file] = content
    images, labels = _cifar_arrays(contents) if name == "cifar10" else _idx_arrays(contents)
    return store(name, images=images.reshape(-1, *image_set.shape), labels=labels)


def _idx_arrays(contents: dict[str, bytes]) -> tuple[Bytes, Bytes]:
    train_x, train_y, test_x, test_y = (read_idx(contents[name], name) for name in IDX_NAMES)
    return np.concatenate([train_x, test_x]), np.concatenate([train_y, test_y])


def _cifar_arrays(contents: dict[str, bytes]) -> tuple[Bytes, Bytes]:
    rows = np.concatenate([np.frombuffer(contents[name], np.uint8).reshape(-1, 3073) for name in CIFAR_NAMES])
    return rows[:, 1:], rows[:, 0].copy()


def read_idx(content: bytes, name: str) -> Bytes:
    """Return the array of unsigned bytes in an idx file; `name` is for error messages."""
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise DataError(f"{name} is not an idx file of unsigned bytes")
    dimensions = content[3]
    start = 4 + 4 * dimensions
    shape = np.frombuffer(content[4:start], ">u4").astype(int) if len(content) >= start else np.array([-1])
    if (shape < 0).any() or len(content) - start != shape.prod():
        raise DataError(f"{name} is cut off or too long: {len(content)} bytes do not hold {tuple(shape.tolist())}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(tuple(shape))


# --- files in a folder ---------------------------------------------------------------------------------------


def _find(folder: Path, file: str) -> bytes:
    """Return the content of one file of a set, in any supported form, from anywhere below the folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name.replace(".idx", "-idx") in (file, f"{file}.gz"):
            content = path.read_bytes()
            return _gunzip(content, path.name) if path.suffix == ".gz" else content
    stem = file.removesuffix(".bin")
    if file.endswith(".bin"):
        for path in sorted(folder.rglob(stem)):
            return _from_python_batch(path.read_bytes(), path)
        for path in sorted(folder.rglob("cifar-10-*.tar.gz")):
            found = _members(path.read_bytes(), {file: "", stem: ""})
            if file in found:
                return found[file]
            if stem in found:
                return _from_python_batch(found[stem], path)
    raise DataError(f"{folder} holds no {file}, plain or compressed")


def _gunzip(content: bytes, name: str) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(f"{name} is not a complete gzip file: {error}") from None


def _members(archive: bytes, wanted: dict[str, str]) -> dict[str, bytes]:
    """Return the wanted files of a tar archive by their names without folders."""
    found = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isfile() else None
                if content is not None and Path(member.name).name in wanted:
                    found[Path(member.name).name] = content.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"the archive is incomplete or damaged: {error}") from None
    return found


def _from_python_batch(content: bytes, path: Path) -> bytes:
    """Convert a batch of CIFAR's Python layout to the binary one: per image a label byte, then the pixels."""
    try:
        batch = unpickle_arrays(content)
        labels, pixels = np.asarray(batch[b"labels"], np.uint8), np.asarray(batch[b"data"], np.uint8)
        return np.concatenate([labels[:, None], pixels], axis=1).tobytes()
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except Exception as error:  # a damaged pickle can raise anything
        raise DataError(f"{path} is not a CIFAR-10 batch: {error!r}") from None


# --- the network ---------------------------------------------------------------------------------------------


def _download(url: str, progress: Progress) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:
        total = int(answer.headers.get("Content-Length") or 0) or None
        return b"".join(_chunks(answer, url.rpartition("/")[2], total, progress))


def _chunks(answer: Any, what: str, total: int | None, progress: Progress) -> Iterator[bytes]:
    done = 0
    while chunk := answer.read(1 << 18):
        done += len(chunk)
        progress(what, done, total)
        yield chunk
    if total is not None and done < total:
        raise urllib.error.URLError(f"{what} was cut off after {done} of {total} bytes")
