"""Data, partitions and models that do not fit are reported with status 2 before a run begins."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedmule.analysis import load_run
from fedmule.learning.data.image_sets import IMAGE_SETS
from fedmule.simulator.cli import main

PARTS = """
import numpy as np
import torch
from fedmule.learning.data.client_data import ClientData
from fedmule.learning.models.logistic import MLR
from fedmule.learning.data.samples import Samples


def samples(clients, generator, change=""):
    n = 20 * clients
    made = {"features": generator.normal(size=(n, 5)), "labels": generator.integers(0, 3, n), "classes": 3}
    made |= {"owner": np.repeat(np.arange(clients), 20), "shape": ()}
    exec(change, {"np": np}, made)
    return Samples(**made)


def shared_out(clients, generator, change=""):
    n = 20 * clients
    made = {"features": torch.randn(n, 5), "labels": torch.randint(0, 3, (n,)), "classes": 3}
    made |= {"first": 20 * np.arange(clients + 1), "train_count": np.full(clients, 15)}
    made |= {"validation_count": None, "shape": ()}
    exec(change, {"np": np, "torch": torch}, made)
    return ClientData(**made)


def no_samples(clients, generator):
    return [1, 2, 3]


def shares(samples, clients, generator, change=""):
    made = {"rows": np.array_split(np.arange(len(samples.labels)), clients)}
    exec(change, {"np": np}, made)
    return made["rows"]


class Net(torch.nn.Module):
    def __init__(self, features, classes, made="torch.nn.Linear(features, classes)", result="y", change=""):
        super().__init__()
        names = {"torch": torch, "features": features, "classes": classes}
        self.layers, self.result = eval(made, names), result
        exec(change, names | {"self": self})

    def forward(self, x):
        return eval(self.result, {"y": self.layers(x), "x": x})


class Own(MLR):
    def __init__(self, features, classes, wider=0, more_classes=0, start="x"):
        super().__init__(features + wider, classes + more_classes)
        self.first = start

    def start(self, generator):
        return eval(self.first, {"x": super().start(generator)})


class NoModel:
    def __init__(self, features, classes):
        self.parameters = 3
"""

RUN = ["run", "smoke", "--allow-plugins", "--quiet", "--out", "run"]
FEW = ["clients.count=5", "clients.mobility=static", "stop.visits=3"]

Run = Callable[..., str]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "unfit_parts.py").write_text(PARTS)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "unfit_parts", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDMULE_DATA", str(tmp_path / "cache"))
    yield tmp_path
    sys.modules.pop("unfit_parts", None)


@pytest.fixture
def refused(desk: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """refused(*sets): the error message of an impossible run, which must leave no files behind."""

    def run(*sets: str) -> str:
        assert main([*RUN, *(part for text in [*FEW, *sets] for part in ("--set", text))]) == 2
        assert not (desk / "run").exists()
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return run


@pytest.fixture
def accepted(desk: Path) -> Callable[..., None]:
    def run(*sets: str) -> None:
        assert main([*RUN, *(part for text in [*FEW, *sets] for part in ("--set", text))]) == 0
        assert load_run("run").summary["visits"] == 3

    return run


# --- data sets of your own -----------------------------------------------------------------------------------


def own(kind: str, change: str = "") -> str:
    return f"learning.{kind}, change = '''{change}''' }}"


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


@pytest.fixture
def table() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    columns = {name: generator.normal(size=60) for name in "abc"}
    return pd.DataFrame({**columns, "label": generator.integers(0, 3, 60)})


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


# --- numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        *((f"step_size={value}", "greater than 0") for value in (0, -1)),
        *((f"step_size={value}", "a finite number, not nan or inf") for value in ("nan", "inf")),
        ("algorithm.beta=0", "greater than 0"),
        ("algorithm.beta=inf", "a finite number"),
        ("algorithm.kappa=-1", "at least 0"),
        ("algorithm.kappa=nan", "a finite number"),
        ("algorithm.kappa_decay=0", "greater than 0"),
        ("algorithm.kappa_decay=1.1", "at most 1"),
        ("algorithm.eps=-0.1", "at least 0"),
        ("algorithm.eps=nan", "at least 0"),
        ("open_at=-1", "at least 0"),
        ("open_at=inf", "a finite number"),
        ("batch_size=0", "at least 1"),
        ("batch_size=true", "a whole number"),
        ("local_steps=1.5", "a whole number"),
        ("ditto:algorithm.strength=-1", "at least 0"),
        ("apfl:algorithm.alpha=1.5", "at most 1"),
        ("apfl:algorithm.alpha=nan", "a finite number"),
        ("pfedme:algorithm.penalty=0", "greater than 0"),
        ("pfedme:algorithm.outer_step_size=0", "greater than 0"),
        ("pfedme:algorithm.inner_steps=0", "at least 1"),
        ("pfedme:algorithm.mix=0", "greater than 0"),
        ("per_fedavg:algorithm.adapt_step_size=-1", "at least 0"),
        ("per_fedavg:algorithm.delta=0", "greater than 0"),
        ("test_share=0", "greater than 0"),
        ("test_share=1", "less than 1"),
        ("validation_share=1", "less than 1"),
        ("validation_share=0.8", "less than 1 together with test_share = 0.25"),
        ("max_train_samples=0", "at least 1"),
        ("evaluate_every=0", "at least 1"),
    ],
)
def test_numbers_out_of_range(refused: Run, text: str, allowed: str) -> None:
    kind, _, text = text.rpartition(":")
    key, _, value = text.partition("=")
    line = refused(*([f"learning.algorithm={kind}"] if kind else []), f"learning.{text}")
    assert line.startswith(f"--set: learning.{key} = {value}: must be ")
    assert allowed in line


# --- partitions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (
            ["learning.partition={ kind = 'labels', labels = 11 }"],
            '"labels": labels = 11: the data have only 10 labels',
        ),
        (["learning.partition=iid", "clients.count=300"], '"iid": client 0 of 300 would get'),
        (["learning.partition=dirichlet", "clients.count=300"], "samples are not enough for 300 clients"),
        (["learning.partition=labels", "clients.count=300"], "samples are not enough for 300 clients"),
        (["learning.partition={ kind = 'dirichlet', alpha = 1e-9 }", "clients.count=40"], "would get 0 samples"),
    ],
)
def test_impossible_partitions(refused: Run, table: pd.DataFrame, sets: list[str], message: str) -> None:
    table = pd.concat([table] * 10, ignore_index=True)
    table["label"] = np.arange(600) % 10
    table.to_csv("mine.csv", index=False)
    line = refused(f'learning.dataset={{ kind = "file", path = "{Path.cwd()}/mine.csv" }}', *sets)
    assert line.startswith('smoke: learning.partition = "')
    assert message in line


def test_data_of_other_clients(refused: Run) -> None:
    changes = {
        "owner = owner % 4": '"column": the data belong to 4 clients or sites, but the scenario has 5',
        "owner[owner == 1] = 0": 'learning.partition = "column": client 1 of 5 would get 0 samples but needs 3',
        "owner = None": 'learning.partition = "column": the data do not say which client a sample belongs to',
    }
    for change, message in changes.items():
        sets = [own('dataset={ kind = "unfit_parts:samples"', change), "learning.partition=column"]
        assert message in refused(*sets)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("rows = rows[:-1]", "assigns samples to 4 clients, but clients.count = 5"),
        ("rows[1] = rows[1][:2]", "client 1 of 5 would get 2 samples but needs 3"),
        ("rows[1] = np.append(rows[1], rows[0][4])", "assigns sample 4 2 times; once is allowed"),
        ("rows[1][0] = -1", "rows must be whole numbers from 0 to 99"),
        ("rows[4][0] = 100", "rows must be whole numbers from 0 to 99"),
        ("rows[0] = rows[0] / 2", "rows must be whole numbers from 0 to 99"),
    ],
)
def test_faulty_partitions_of_a_plugin(refused: Run, change: str, message: str) -> None:
    line = refused('learning.dataset="unfit_parts:samples"', own('partition={ kind = "unfit_parts:shares"', change))
    assert line.startswith('smoke: learning.partition = "unfit_parts:shares": ')
    assert message in line


# --- models --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("made = 'torch.nn.Linear(features, 2)'", "must be a tensor of shape (4, 10), not of shape (4, 2)"),
        ("made = 'torch.nn.Linear(features, 11)'", "must be a tensor of shape (4, 10), not of shape (4, 11)"),
        ("made = 'torch.nn.Linear(4, classes)'", "Net cannot take samples of shape (60,)"),
        ("result = 'y[:, 0]'", "must be a tensor of shape (4, 10), not of shape (4,)"),
        ("result = 'y.T'", "must be a tensor of shape (4, 10), not of shape (10, 4)"),
        ("result = 'y / 0'", "its scores are not finite numbers"),
        ("result = 'no_such_name'", "Net cannot take samples of shape (60,): NameError"),
        ("made = 'torch.nn.Flatten()'", "Net has no parameters to train"),
        ("change = 'self.layers.bias.requires_grad_(False)'", "Net freezes layers.bias"),
        ("change = 'self.norm = torch.nn.BatchNorm1d(3)'", "Net keeps norm.running_mean outside its parameters, as"),
        (
            "made = 'torch.nn.Sequential(torch.nn.Linear(60, 10), torch.nn.BatchNorm1d(10, 1, 1, True, False))'",
            "depend on the other samples in the batch, as with batch norm; use layer or group norm instead",
        ),
    ],
)
def test_modules_that_do_not_fit(refused: Run, keys: str, message: str) -> None:
    line = refused(f'learning.model={{ kind = "unfit_parts:Net", {keys} }}')
    assert line.startswith('smoke: learning.model = "unfit_parts:Net": ')
    assert message in line


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ('{ kind = "unfit_parts:Own", wider = 2 }', "fails on samples of these data: RuntimeError"),
        ('{ kind = "unfit_parts:Own", more_classes = -1 }', "must be a tensor of shape (4, 10), not of shape (4, 9)"),
        (
            '{ kind = "unfit_parts:Own", start = "x[:-1]" }',
            "its start must be a tensor of shape (610,), not of shape (609,)",
        ),
        ('{ kind = "unfit_parts:Own", start = "x.double()" }', "its start must be torch.float32, not torch.float64"),
        ('{ kind = "unfit_parts:Own", start = "x / 0" }', "its initial parameters are not finite numbers"),
        ('"unfit_parts:NoModel"', "has no start; a model is a torch.nn.Module or has parameters, start, gradient"),
        ('"cnn"', 'learning.model = "cnn": needs images; these data have plain features'),
    ],
)
def test_models_that_do_not_fit(refused: Run, model: str, message: str) -> None:
    assert message in refused(f"learning.model={model}")


def test_images_too_small_for_the_cnn(refused: Run) -> None:
    change = "features, shape = np.ones((100, 144)), (1, 12, 12)"
    line = refused(own('dataset={ kind = "unfit_parts:samples"', change), "learning.model=cnn")
    assert 'learning.model = "cnn": images of 12 × 12 are too small; it needs 16 × 16' in line


def test_a_trial_leaves_a_run_as_it_is(accepted: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    made = "torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(60, 10))"
    model = f"learning.model={{ kind = 'unfit_parts:Net', made = '{made}' }}"
    accepted(model)
    tried = load_run("run").contacts.drop(columns="host_time_s")
    Path("run").rename("tried")
    monkeypatch.setattr("fedmule.simulator.build.try_model", lambda model, data: None)
    accepted(model)
    assert load_run("run").contacts.drop(columns="host_time_s").equals(tried)


# --- few samples, one label: nothing wrong with that ---------------------------------------------------------

ALGORITHMS = ["rwsadmm", "fedavg", "walkman", "local", "ditto", "apfl", "pfedme", "per_fedavg"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    "partition", ["{ kind = 'labels', labels = 1 }", "{ kind = 'dirichlet', alpha = 0.05 }", "iid", "column"]
)
def test_clients_with_one_label_or_less_than_a_batch_learn(
    accepted: Callable[..., None], table: pd.DataFrame, algorithm: str, partition: str
) -> None:
    """12 samples each, batches of 20."""
    table["label"], table["who"] = np.arange(60) // 12, np.arange(60) // 12
    table.to_csv("mine.csv", index=False)
    keys = f'{{ kind = "file", path = "{Path.cwd()}/mine.csv", client = "who" }}'
    sets = [f"learning.dataset={keys}", f"learning.partition={partition}", f"learning.algorithm={algorithm}"]
    accepted(*sets, "learning.max_train_samples=6")
    contacts = load_run("run").contacts
    assert np.isfinite(contacts["train_loss"]).all()
    assert contacts["gradient_steps"].sum() > 0
