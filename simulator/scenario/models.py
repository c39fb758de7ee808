"""Keys of the models, and what is known of a model before it is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from fedmule.simulator.scenario.keys import Chosen, Count, OwnClass, Part, key, one_of


class ModelKeys(Part):
    """A model of the program, of which algorithms know something without building it."""

    represents: ClassVar[bool] = True  # whether it gives the inputs of its last layer

    def layer_count(self) -> int:
        """Return the number of its layers."""
        raise NotImplementedError


class MlrModel(ModelKeys):
    makes = "learning.models.logistic:MLR"
    kind: Literal["mlr"] = key("mlr", "multinomial logistic regression")

    def layer_count(self) -> int:
        """Return 1."""
        return 1


class MlpModel(ModelKeys):
    makes = "learning.models.mlp:MLP"
    kind: Literal["mlp"] = key("mlp", "multilayer perceptron")
    hidden: Annotated[tuple[Count, ...], Field(strict=False)] = key((100, 100), "widths of the hidden layers")

    def layer_count(self) -> int:
        """Return the number of hidden layers, and one."""
        return len(self.hidden) + 1


class CnnModel(ModelKeys):
    makes = "learning.models.module:cnn"
    kind: Literal["cnn"] = key("cnn", "two 5×5 convolutions, a layer of 512, dropout 25 % and 50 %; for images")
    represents = False

    def layer_count(self) -> int:
        """Return 4."""
        return 4


class OwnModel(OwnClass):
    """A model of the user's own."""

    provided = ("features", "classes", "shape")


if TYPE_CHECKING:
    Model = Chosen
else:
    Model = one_of("mlr", MlrModel, MlpModel, CnnModel, own=OwnModel)
