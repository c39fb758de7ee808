"""Check of a model on a few samples before a run, so that a misfit is reported clearly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedmule.learning.data.client_data import ClientData
from fedmule.learning.errors import DataError
from fedmule.learning.models.module import ModuleModel
from fedmule.learning.models.protocol import gradient_of_scores, takes_prior

NEEDED = "give its gradient an argument `prior` [S,c] that is added to the scores"
PARTS = ("parameters", "start", "gradient", "scores", "flops", "smoothness")


def wrap(module: torch.nn.Module, data: ClientData) -> ModuleModel:
    """Wrap a torch module as a model for these data."""
    name, shape = type(module).__name__, data.shape or (data.features.shape[1],)
    if not list(module.parameters()):
        raise DataError(f"{name} has no parameters to train")
    frozen = [part for part, value in module.named_parameters() if not value.requires_grad]
    if frozen:
        raise DataError(f"{name} freezes {frozen[0]}; all parameters of a model are trained and exchanged")
    try:
        return ModuleModel(module, shape)
    except DataError:
        raise
    except Exception as error:  # whatever the user's module raises
        raise DataError(f"{name} cannot take samples of shape {shape}: {error!r}") from None


def try_model(model: Any, data: ClientData) -> None:
    """Raise a DataError unless start, scores and gradient of the model work on a few of these samples."""
    missing = [part for part in PARTS if not hasattr(model, part)]
    if missing:
        raise DataError(f"has no {missing[0]}; a model is a torch.nn.Module or has {', '.join(PARTS)}")
    few, features, labels = min(4, len(data.labels)), data.features, data.labels
    seeds = [[0]] if getattr(model, "random", False) else []
    try:
        with torch.random.fork_rng(devices=[]):
            start = model.start(np.random.default_rng(0)).to(features.device)
            _check_shape("its start", start, (model.parameters,), features.dtype)
            scores, of_two = model.scores(start, features[:few]), model.scores(start, features[:2])
            _check_shape(f"its scores of {few} samples of {data.classes} classes", scores, (few, data.classes))
            gradient, loss = model.gradient(
                start.unsqueeze(0), features[:2].unsqueeze(0), labels[:2].unsqueeze(0), *seeds
            )
            _check_shape("its gradient", gradient, (1, model.parameters))
            _check_shape("its losses", loss, (1,))
            flops = float(model.flops(1))
    except DataError:
        raise
    except Exception as error:  # whatever the user's model raises
        raise DataError(f"fails on samples of these data: {error!r}") from None
    for what, values in (("initial parameters", start), ("scores", scores), ("losses", loss)):
        if not torch.isfinite(values).all():
            raise DataError(f"its {what} are not finite numbers")
    if not torch.allclose(scores[:2], of_two, rtol=0, atol=1e-3 * max(1.0, float(scores.abs().max()))):
        raise DataError(
            "its scores for a sample depend on the other samples in the batch, as with batch norm; use layer or group "
            "norm instead"
        )
    if not (math.isfinite(flops) and flops >= 0):
        raise DataError(f"its flops must be a number, 0 or more, not {flops}")


def try_prior(model: Any, data: ClientData) -> None:
    """Raise a DataError unless the model's gradient can be computed with a prior, on a few of these samples."""
    features, labels = data.features[:2].unsqueeze(0), data.labels[:2].unsqueeze(0)
    start = model.start(np.random.default_rng(0)).to(features.device).unsqueeze(0)
    prior = features.new_zeros(1, data.classes)
    seeds = [[0]] if getattr(model, "random", False) else []
    with torch.random.fork_rng(devices=[]):
        expected, _ = model.gradient(start, features, labels, *seeds)
        try:
            if takes_prior(model.gradient):
                found, _ = model.gradient(start, features, labels, *seeds, prior=prior)
                _check_shape("its gradient with a prior", found, (1, model.parameters))
            else:
                found, _ = gradient_of_scores(model, start, features, labels, prior)
        except DataError:
            raise
        except Exception as error:  # whatever the user's model raises
            raise DataError(f"the model cannot be trained with a prior: {error!r}; {NEEDED}") from None
    if not torch.allclose(found, expected, rtol=1e-3, atol=1e-3 * max(1e-3, float(expected.abs().max()))):
        what = "a prior of zeros changes its gradient"
        if not takes_prior(model.gradient):
            what = "its gradient is not that of the cross-entropy of its scores"
        raise DataError(f"the model cannot be trained with a prior: {what}; {NEEDED}")


def _check_shape(what: str, value: Any, shape: tuple[int, ...], dtype: torch.dtype | None = None) -> None:
    if not isinstance(value, Tensor) or tuple(value.shape) != shape:
        found = f"of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
        raise DataError(f"{what} must be a tensor of shape {shape}, not {found}")
    if dtype is not None and value.dtype != dtype:
        raise DataError(f"{what} must be {dtype}, not {value.dtype}")
