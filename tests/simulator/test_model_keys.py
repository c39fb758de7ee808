"""What an algorithm needs of a model is known before the model is built: by `fedmule check`, with status 2."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from unfit import Run

from fedmule.learning.models.module import ModuleModel
from fedmule.learning.models.protocol import layers
from fedmule.simulator.cli import main
from fedmule.simulator.scenario.learning import Learning
from fedmule.simulator.scenario.messages import tables_in
from fedmule.simulator.scenario.models import CnnModel, MlpModel, MlrModel, ModelKeys, OwnModel
from fedmule.simulator.scenario.parts import choose

TWO = "needs a model with at least two layers, a body and a head; learning.model has one"
FEATURES = "needs a model that gives the features below its last layer, such as mlp"
NONE = "learning.model={ kind = 'mlp', hidden = [] }"


@pytest.mark.parametrize(
    "keys", [MlrModel(), MlpModel(), MlpModel(hidden=(3,)), MlpModel(hidden=()), CnnModel()], ids=repr
)
def test_models_are_as_their_keys_say(keys: ModelKeys) -> None:
    made = choose(keys, "learning.model", {}).make(features=400, classes=3, shape=(1, 20, 20))
    model = ModuleModel(made, (1, 20, 20)) if isinstance(made, torch.nn.Module) else made
    assert keys.layer_count() == len(layers(model))
    assert keys.represents == hasattr(model, "represent")


def test_every_model_of_the_program_is_known() -> None:
    chosen = set(tables_in(Learning.model_fields["model"].annotation).values())
    assert chosen == {MlrModel, MlpModel, CnnModel, OwnModel}
    assert chosen - {OwnModel} == set(ModelKeys.__subclasses__())


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        *(([f"learning.algorithm={kind}"], f'learning.algorithm = "{kind}": {TWO}') for kind in ("fedper", "fedbabu")),
        (["learning.algorithm=fedrep", NONE], f'learning.algorithm = "fedrep": {TWO}'),
        (
            ["learning.algorithm=local", "learning.algorithm.reference=fedper"],
            f'learning.algorithm.reference = "fedper": {TWO}',
        ),
        (["learning.algorithm=feddbe"], f'learning.algorithm = "feddbe": {FEATURES}'),
        (["learning.algorithm=feddbe", "learning.model=cnn"], f'learning.algorithm = "feddbe": {FEATURES}'),
        (
            ["learning.algorithm=fedala", "learning.algorithm.top_layers=4", "learning.model=mlp"],
            "learning.algorithm.top_layers = 4: must be at most 3, the number of layers of learning.model",
        ),
        (
            ["learning.algorithm.eps=[0, inf]", "learning.model=mlp"],
            "learning.algorithm.eps = [0.0, inf]: must have one width for each layer of learning.model, which has 3",
        ),
    ],
)
def test_check_knows_what_a_model_lacks(capsys: pytest.CaptureFixture[str], sets: list[str], message: str) -> None:
    assert main(["check", "smoke", *(part for text in sets for part in ("--set", text))]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(message)


@pytest.mark.parametrize("kind", ["fedper", "fedrep", "fedbabu", "feddbe", "{ kind = 'fedala', top_layers = 2 }"])
def test_check_accepts_what_fits(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    for model in ("{ kind = 'mlp', hidden = [5] }", "my_models:Net"):  # nothing is known of a user's model yet
        sets = [f"learning.algorithm={kind}", f"learning.model={model}"]
        assert main(["check", "smoke", *(part for text in sets for part in ("--set", text))]) == 0


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        *(("fedper", TWO), ("feddbe", FEATURES)),
        ("{ kind = 'fedala', top_layers = 2 }", "top_layers = 2: learning.model has 1"),
        ("{ kind = 'rwsadmm', eps = [0, 1] }", "must have one width for each layer of the model: layers"),
    ],
)
def test_models_of_ones_own_are_refused_when_they_are_built(refused: Run, algorithm: Any, message: str) -> None:
    assert message in refused(f"learning.algorithm={algorithm}", "learning.model=unfit_parts:Net")


def test_fedex_needs_time_between_contacts(capsys: pytest.CaptureFixture[str]) -> None:
    between = ["--set", "clients.training=between_contacts"]
    fedex = ["check", "smoke", "--set", "learning.algorithm=fedex"]
    assert main([*fedex, *between]) == 0
    assert main([*fedex, *between, "--set", "learning.algorithm.staleness=published"]) == 0
    wrong = {
        (): 'smoke: clients.training = "at_contact": must be "between_contacts" for fedex',
        ("learning.server=star",): '--set: learning.server = "star": must be "vehicle" for fedex',
        ("clients.training=between_contacts", "learning.algorithm.patience=3"): 'patience = 3.0: needs mode = "sync"',
        (
            "clients.training=between_contacts",
            "learning.algorithm.mode=sync",
            "learning.algorithm.staleness=1",
        ): 'staleness = 1.0: needs mode = "async"',
    }
    capsys.readouterr()
    for sets, message in wrong.items():
        assert main([*fedex, *(part for text in sets for part in ("--set", text))]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line
    named = ["check", "smoke", "--set", "learning.algorithm=local", "--set", "learning.algorithm.reference=fedex"]
    assert main(named) == 2
    assert 'must be "between_contacts" for fedex' in capsys.readouterr().err
