"""Numbers, partitions and models that do not fit are reported with status 2 before a run begins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from unfit import Run, own

from fedmule.analysis import load_run

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
        *((f"algorithm.trust={value}", "greater than 0") for value in ("0", "-1", "nan")),
        ("algorithm.centre=1.5", "at most 1"),
        ("algorithm.own_labels=2", "must be 'held_out', or must be true or false"),
        ("algorithm.try_at=1.5", "at most 1"),
        ("algorithm.try_at=0.8", "at most learning.open_at, 0.75"),
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
        ("fedrep:algorithm.head_share=0", "greater than 0"),
        ("fedrep:algorithm.head_share=1", "less than 1"),
        ("fedala:algorithm.top_layers=0", "at least 1"),
        ("fedala:algorithm.weight_step_size=0", "greater than 0"),
        ("fedbabu:algorithm.token_mean=1.5", "at most 1"),
        ("fedbabu:algorithm.fine_tune_step_size=-1", "at least 0"),
        ("feddbe:algorithm.strength=-1", "at least 0"),
        ("feddbe:algorithm.momentum=0", "greater than 0"),
        ("fedex:algorithm.patience=1", "at least 2"),
        ("test_share=0", "greater than 0"),
        ("test_share=1", "less than 1"),
        ("validation_share=1", "less than 1"),
        ("validation_share=0.8", "less than 1 together with test_share = 0.25"),
        ("max_train_samples=0", "at least 1"),
        ("evaluate_every=0", "at least 1"),
        ("prior=0", "greater than 0"),
        ("prior=-1", "greater than 0"),
        ("prior=inf", "a finite number"),
        ('prior="yes"', "true or false"),
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


@pytest.mark.parametrize("algorithm", ["fedper", "fedrep", "fedbabu"])
def test_a_body_and_a_head_need_two_layers(refused: Run, accepted: Callable[..., None], algorithm: str) -> None:
    needs = "needs a model with at least two layers, a body and a head; learning.model has one"
    line = refused(f"learning.algorithm={algorithm}")
    assert line.endswith(f'learning.algorithm = "{algorithm}": {needs}')
    line = refused("learning.algorithm=local", f"learning.algorithm.reference={algorithm}")
    assert line.endswith(f'learning.algorithm.reference = "{algorithm}": {needs}')
    accepted(f"learning.algorithm={algorithm}", "learning.model={ kind = 'mlp', hidden = [5] }")


def test_keys_that_do_not_fit_the_rest(refused: Run) -> None:
    line = refused("learning.algorithm=fedala", "learning.algorithm.top_layers=2")
    assert "learning.algorithm.top_layers = 2: must be at most 1, the number of layers of learning.model" in line
    line = refused("learning.algorithm=feddbe")
    assert (
        'learning.algorithm = "feddbe": needs a model that gives the features below its last layer, such as mlp' in line
    )
    line = refused("learning.algorithm=fedrep", "learning.local_steps=1", "learning.model=mlp")
    assert "learning.local_steps = 1: must be at least 2 for fedrep" in line
    line = refused("learning.algorithm=fedavg", "learning.algorithm.token_mean=0.5")
    assert "learning.algorithm.token_mean = 0.5: needs fine_tune = true" in line


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
