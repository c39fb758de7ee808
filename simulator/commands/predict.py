"""fedmule predict: apply what a run has learnt to samples in a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedmule.simulator.commands import arguments

if TYPE_CHECKING:
    import pandas as pd

    from fedmule.learning.kept import Sheet


def add(commands: Any) -> None:
    """The command `predict`."""
    predict = commands.add_parser(
        "predict",
        help="apply what a run has learnt to samples in a file",
        description="Write a prediction for each row of a CSV file, with the token of a finished run or a client's "
        "personal model. The file has the columns of the run's data; others are kept beside the predictions.",
        epilog=arguments.examples(
            "predict runs/warzone samples.csv --client 3", "predict runs/warzone samples.csv --out predicted.csv"
        ),
    )
    arguments.add_model(predict)
    predict.add_argument("file", metavar="FILE", help="samples: .csv, which may be compressed")
    predict.add_argument("--out", metavar="CSV", help="where to write (default: FILE-predicted.csv in this folder)")
    predict.set_defaults(command=_predict)


def _predict(given: Any) -> int:
    from fedmule.learning.errors import DataError
    from fedmule.learning.kept import probabilities, read_sheet
    from fedmule.simulator.errors import UserError
    from fedmule.simulator.runs.folder import write_text
    from fedmule.simulator.runs.models import load_model

    folder, file = Path(given.run), Path(given.file)
    out = Path(given.out or f"{file.name.partition('.')[0]}-predicted.csv")
    if out.resolve() == file.resolve():
        raise UserError(f"{out}: would overwrite the samples; choose another file with --out")
    try:
        sheet = read_sheet(folder)
        table = _read(file)
        features = _features(file, table, sheet)
    except DataError as error:
        raise UserError(str(error)) from None
    model = load_model(folder, given.client, given.token or None, given.allow_plugins)
    likely = probabilities(model, features)
    classes = sheet.class_names or tuple(range(sheet.classes))
    chosen = likely.argmax(axis=1)
    predicted = table[[name for name in table.columns if name not in _columns(table, sheet)]].copy()
    predicted["predicted"] = [classes[i] for i in chosen]
    predicted["probability"] = likely.max(axis=1)
    write_text(out, predicted.to_csv(index=False))
    sys.stdout.write(
        f"{len(table)} samples predicted with {arguments.which_model(given)} of {folder}, written to {out}\n"
    )
    if "label" in table:
        right = predicted["predicted"].astype(str) == table["label"].astype(str)
        sys.stdout.write(f"{100 * right.mean():.1f} % agree with the column label\n")
    return 0


def _read(file: Path) -> pd.DataFrame:
    import pandas as pd

    from fedmule.learning.errors import DataError

    if not file.is_file():
        raise DataError(f"{file}: no such file")
    try:
        table = pd.read_csv(file, low_memory=False)
    except Exception as error:  # pandas readers raise many types
        raise DataError(f"{file}: cannot be read: {error}") from None
    if not len(table):
        raise DataError(f"{file}: holds no samples")
    return table


def _columns(table: pd.DataFrame, sheet: Sheet) -> list[str]:
    """The columns of features: those of the data the run learnt from, or all but labels, clients and recordings."""
    return list(sheet.feature_names) or [n for n in table.columns if n not in ("label", "client", "recording")]


def _features(file: Path, table: pd.DataFrame, sheet: Sheet) -> Any:
    """The features [N,f] in a table; raises a DataError that names what is missing or is no number."""
    import numpy as np
    import pandas as pd

    from fedmule.learning.errors import DataError

    columns = _columns(table, sheet)
    missing = [name for name in columns if name not in table]
    if missing:
        raise DataError(f"{file}: has no column {', '.join(map(repr, missing[:5]))}, which the run has learnt from")
    if len(columns) != sheet.features:
        raise DataError(f"{file}: has {len(columns)} columns of features, and the run has learnt from {sheet.features}")
    values = table[columns].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=np.float64)
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        found = table[columns].iloc[row, column]
        raise DataError(f"{file}: row {row}, column {columns[column]!r} is not a finite number: {found!r}")
    return values
