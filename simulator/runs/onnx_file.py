"""A model of a run as an ONNX file."""

from __future__ import annotations

import io
import logging
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedmule.learning.kept import Predictor, Sheet


def export_model(
    folder: Path, file: Path, client: int | None = None, token: bool | None = None, allow_plugins: bool = False
) -> None:
    """Write a model as `load_model` returns it: samples [samples, features] to scores [samples, classes].

    The names of features and classes are in the file's metadata, as JSON. Raises a UserError where the packages of the
    extra `onnx` are missing, or a model cannot be expressed in ONNX.
    """
    from fedmule.learning.kept import read_sheet
    from fedmule.simulator.errors import UserError
    from fedmule.simulator.runs.folder import write_bytes
    from fedmule.simulator.runs.models import load_model

    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise UserError(f"ONNX files need the package {error.name}: pip install 'fedmule[onnx]'") from None
    model = load_model(folder, client, token, allow_plugins)
    try:
        content = _onnx(model, read_sheet(folder))
    except Exception as error:  # torch raises many types
        reason = str(error).strip().splitlines()
        raise UserError(f"{folder}: this model cannot be exported: {reason[0] if reason else repr(error)}") from None
    file.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(file, content)


def _onnx(model: Predictor, sheet: Sheet) -> bytes:
    """The content of the file; torch reports on its steps, which nobody needs to see."""
    import json

    import torch

    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.ERROR)
    samples = {"features": {0: torch.export.Dim("samples")}}
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                model,
                (torch.zeros(2, sheet.features),),
                input_names=["features"],
                output_names=["scores"],
                dynamic_shapes=samples,
                dynamo=True,
                verbose=False,
            )
    finally:
        log.setLevel(before)
    assert program is not None
    proto = program.model_proto
    for name, values in (("features", sheet.feature_names), ("classes", sheet.class_names or range(sheet.classes))):
        entry = proto.metadata_props.add()
        entry.key, entry.value = name, json.dumps(list(values))
    return bytes(proto.SerializeToString())
