"""The folder `models` of a run: what it has learnt, for prediction elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

    from fedmule.learning.kept import Predictor
    from fedmule.learning.learner import Learner
    from fedmule.simulator.scenario import Scenario
    from fedmule.simulator.scenario.keys import Part

SMALL = 100_000_000  # bytes


def write_models(folder: Path, scenario: Scenario, learner: Learner, now_s: float, wanted: bool | None) -> None:
    """Write token and personal models as they are now; if `wanted` is None, only where they are small."""
    import torch

    from fedmule.learning.kept import Sheet, shapes_of, write

    data, model = learner.algorithm.data, learner.algorithm.model
    everyone = np.arange(data.clients)
    tokens = learner.algorithm.tokens(everyone)
    tokens = tokens.view(1, -1) if tokens.dim() == 1 else tokens
    if wanted is False or (wanted is None and (len(tokens) + data.clients) * learner.trained_bytes > SMALL):
        return
    names, classes, scale = _names(scenario.learning.dataset)
    sheet = Sheet(
        model=_keys(scenario.learning.model),
        features=data.features.shape[1],
        classes=data.classes,
        shape=tuple(data.shape),
        feature_names=tuple(names),
        class_names=tuple(classes),
        scale=scale,
        clients=data.clients,
        tokens=len(tokens),
        prior=learner.prior,
    )
    rows: list[Tensor] = [learner.model(client, now_s).cpu() for client in everyone.tolist()]
    write(folder, sheet, shapes_of(model), tokens, torch.stack(rows), None if data.prior is None else data.prior.log)


def load_model(
    folder: Path, client: int | None = None, token: bool | None = None, allow_plugins: bool = False
) -> Predictor:
    """Return a model of a run folder as a torch module: a client's personal model, or the token without a client.

    The module takes samples as they are in the data and returns class scores, with the client's prior where the run had
    one. `token` gives the token that a client would receive instead of its personal model. A run with a model class of
    the user's own needs `allow_plugins`, since the class is imported.
    """
    import torch

    from fedmule.learning.errors import DataError
    from fedmule.learning.kept import CLIENTS, FOLDER, PRIOR, TOKENS, build, read_model, read_row, read_sheet, shapes_of
    from fedmule.learning.models.module import ModuleModel
    from fedmule.simulator.errors import UserError
    from fedmule.simulator.scenario.load import scenario_of
    from fedmule.simulator.scenario.parts import choose
    from fedmule.simulator.scenario.plugins import load_plugins

    try:
        sheet = read_sheet(folder)
        if client is not None and not 0 <= client < sheet.clients:
            raise DataError(f"{folder}: has no client {client}; clients are 0 to {sheet.clients - 1}")
        if client is None and token is False:
            raise DataError(f"{folder}: name a client for a personal model")
        if client is None and sheet.tokens > 1:
            raise DataError(f"{folder}: has a token for each client: name a client")
        scenario = scenario_of({"learning": {"model": dict(sheet.model)}}, (), f"{folder}/models/model.json")
        plugins = load_plugins(scenario, allow_plugins, [Path.cwd()])
        chosen = choose(scenario.learning.model, "learning.model", plugins)
        model = chosen.make(features=sheet.features, classes=sheet.classes, shape=sheet.shape)
        if isinstance(model, torch.nn.Module):
            model = ModuleModel(model, sheet.shape or (sheet.features,))
        row = client or 0
        file, at = (TOKENS, row if sheet.tokens > 1 else 0) if token or client is None else (CLIENTS, row)
        parts = read_model(folder, shapes_of(model), file, at)
        prior = None if client is None else read_row(folder / FOLDER / CLIENTS, row).get(PRIOR)
        return build(model, sheet, parts, prior)
    except DataError as error:
        raise UserError(str(error)) from None


def _keys(part: Part) -> dict[str, Any]:
    """A table as a scenario has it, without what is not set."""
    plain: dict[str, Any] = part.model_dump(mode="json", exclude_none=True)
    return plain


def _names(dataset: Part) -> tuple[list[str], list[Any], float]:
    """Names of features and labels of a data set, as far as there are any, and what features were divided by."""
    from fedmule.learning.data.catalogue import IN_THE_BOX, PUBLIC, boxed, card_of
    from fedmule.learning.data.own_file import names_in

    kind = str(getattr(dataset, "kind", ""))
    if kind == "file":
        return names_in(*(getattr(dataset, key) for key in ("path", "label", "client", "recording")))
    if kind in IN_THE_BOX:
        return names_in(str(boxed(kind)), None, None, None)
    if kind in PUBLIC:
        card = card_of(kind)
        return [], list(card.classes), 255.0 if card.shape else 1.0
    return [], [], 1.0
