"""What a run has learnt, as files that others can read: parameters in safetensors, and a JSON of what they are.

A folder `models/` has `model.json`, `tokens.safetensors` and `clients.safetensors`. Each parameter has the name that it
has in a torch module, and a row for each token or client. Reading a folder executes nothing of it.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedmule.learning.errors import DataError
from fedmule.learning.models.mlp import MLP
from fedmule.learning.models.module import ModuleModel

FORMAT = 1
FOLDER, SHEET = "models", "model.json"
TOKENS, CLIENTS = "tokens.safetensors", "clients.safetensors"
PRIOR = "log_prior"  # [n,c], beside the parameters of the clients
WHOLE = "parameters"  # the one name of a model class that is no torch module

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Sheet:
    """What the parameters are, and what goes in and comes out."""

    model: Mapping[str, Any]  # kind and keys, as in a scenario
    features: int
    classes: int
    shape: tuple[int, ...]  # of one sample, such as (channels, height, width); () for plain features
    feature_names: tuple[str, ...]  # columns of the data, in order; () if they have no names
    class_names: tuple[str | int | float | bool, ...]  # labels, in order; () if they are 0, 1, …
    scale: float  # features were divided by this
    clients: int
    tokens: int  # one, or one for each client
    prior: float | None  # number added to the count of every label; None: nothing is added to scores
    format: int = FORMAT


def shapes_of(model: Any) -> Shapes:
    """Return the parameters of a model by name, in their order in its vector [d]."""
    if isinstance(model, MLP):
        found: Shapes = {}
        for i, (inputs, outputs) in enumerate(pairwise(model.widths)):
            found |= {f"{2 * i}.weight": (outputs, inputs), f"{2 * i}.bias": (outputs,)}
        return found
    return model.shapes if isinstance(model, ModuleModel) else {WHOLE: (model.parameters,)}


def module_of(model: Any) -> torch.nn.Module | None:
    """Return a torch module whose parameters have these names; None for a model class that is no module."""
    if isinstance(model, MLP):
        layers: list[torch.nn.Module] = []
        for inputs, outputs in pairwise(model.widths):
            layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
        return torch.nn.Sequential(*layers[:-1])
    return model.module if isinstance(model, ModuleModel) else None


def write(
    folder: Path, sheet: Sheet, shapes: Shapes, tokens: Tensor, clients: Tensor, log_prior: Tensor | None
) -> None:
    """Write the folder `models` in a run's folder, completely or not at all: tokens [m,d], personal models [n,d]."""
    from safetensors.torch import save

    target, partial = folder / FOLDER, folder / f"{FOLDER}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    (partial / TOKENS).write_bytes(save(_named(tokens, shapes)))
    prior = {} if log_prior is None else {PRIOR: log_prior.cpu().contiguous()}
    (partial / CLIENTS).write_bytes(save(_named(clients, shapes) | prior))
    (partial / SHEET).write_text(json.dumps(asdict(sheet), indent=2, allow_nan=False) + "\n", encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    os.replace(partial, target)


def read_sheet(folder: Path) -> Sheet:
    """Read what the models of a run are; raise a DataError that says what is wrong."""
    file = folder / FOLDER / SHEET
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(
            f"{folder}: holds no models; a run keeps them with --set log.models=true, and by default if they are small"
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{file}: cannot be read: {error}") from None
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise DataError(f"{file}: is not the models of a Fedmule run, or of a version that this one does not know")
    names = {field.name for field in fields(Sheet)}
    if set(raw) != names:
        raise DataError(f"{file}: has other entries than it should: {', '.join(sorted(set(raw) ^ names))}")
    numbers = ("features", "classes", "clients", "tokens")
    lists = ("shape", "feature_names", "class_names")
    right = all(type(raw[name]) is int and raw[name] > 0 for name in numbers)
    right &= all(isinstance(raw[name], list) for name in lists)
    right &= type(raw["scale"]) in (int, float) and 0 < raw["scale"] < math.inf
    right &= isinstance(raw["model"], dict) and (raw["prior"] is None or type(raw["prior"]) in (int, float))
    if not right or (raw["feature_names"] and len(raw["feature_names"]) != raw["features"]):
        raise DataError(f"{file}: its entries do not fit together")
    values: dict[str, Any] = {name: tuple(value) if name in lists else value for name, value in raw.items()}
    return Sheet(**values)


def read_model(folder: Path, shapes: Shapes, file: str, row: int) -> dict[str, Tensor]:
    """Read one model, a row of a file, by the names of its parameters."""
    found = read_row(folder / FOLDER / file, row)
    found.pop(PRIOR, None)
    if set(found) != set(shapes):
        names = ", ".join(sorted(found)[:5])
        raise DataError(f"{folder / FOLDER / file}: has other parameters than {SHEET} says: {names}")
    wrong = [name for name, shape in shapes.items() if tuple(found[name].shape) != shape]
    if wrong:
        shape = tuple(found[wrong[0]].shape)
        raise DataError(f"{folder / FOLDER / file}: {wrong[0]} has the shape {shape}, not {shapes[wrong[0]]}")
    return found


def read_row(file: Path, row: int) -> dict[str, Tensor]:
    """Read a row of every tensor of a file; raise a DataError where it cannot be read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as content:
            return {name: content.get_slice(name)[row : row + 1][0] for name in content.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, IndexError) as error:
        raise DataError(f"{file}: cannot be read: {error}") from None


def _named(rows: Tensor, shapes: Shapes) -> dict[str, Tensor]:
    """Rows [m,d] as a tensor [m,…] for each parameter."""
    parts = torch.split(rows.cpu(), [math.prod(shape) for shape in shapes.values()], dim=1)
    return {
        name: part.reshape(len(rows), *shape).clone() for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }


class Predictor(torch.nn.Module):
    """A model of a run that takes samples as they come: it scales them, and adds the client's prior to the scores."""

    log_prior: Tensor | None

    def __init__(
        self, network: torch.nn.Module, scale: float, shape: tuple[int, ...], log_prior: Tensor | None
    ) -> None:
        super().__init__()
        self.network = network
        self.scale, self.shape = scale, shape
        self.register_buffer("log_prior", log_prior)

    def forward(self, features: Tensor) -> Tensor:
        """Return class scores [N,c] of samples [N,f]."""
        scaled = features / self.scale
        scores: Tensor = self.network(scaled.reshape(-1, *self.shape) if self.shape else scaled)
        return scores if self.log_prior is None else scores + self.log_prior


class Vector(torch.nn.Module):
    """A model class that is no torch module, with its parameters as one vector [d]."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.parameters_ = torch.nn.Parameter(torch.zeros(model.parameters))

    def forward(self, features: Tensor) -> Tensor:
        """Return class scores [N,c] of samples [N,f]."""
        scores: Tensor = self.model.scores(self.parameters_.detach(), features)
        return scores


def build(model: Any, sheet: Sheet, parts: dict[str, Tensor], log_prior: Tensor | None) -> Predictor:
    """Return a torch module with these parameters, ready to predict."""
    network = module_of(model)
    if network is None:
        network, parts = Vector(model), {"parameters_": parts[WHOLE]}
    network.load_state_dict(parts)
    shape = sheet.shape if isinstance(model, ModuleModel) else ()
    return Predictor(network, sheet.scale, shape, log_prior).eval()


def probabilities(model: torch.nn.Module, features: Any) -> Any:
    """Return class probabilities [N,c] of samples [N,f]."""
    with torch.no_grad():
        scores = model(torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32)))
        return torch.softmax(scores.double(), dim=1).numpy()
