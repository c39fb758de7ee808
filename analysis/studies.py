"""Folders of many runs as pandas tables."""

from __future__ import annotations

import contextlib
import math
import os
import tomllib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from fedmule.analysis.loading import Run, load_run, shown, undamaged
from fedmule.analysis.measures import GAIN, on_the_air
from fedmule.analysis.result_tables import Table, as_text
from fedmule.simulator.errors import UserError
from fedmule.simulator.runs.ending import ENDED, ending_of, n_of_n, without_result
from fedmule.simulator.runs.folder import write_text
from fedmule.simulator.runs.tables import read_table
from fedmule.simulator.studies.statistics import interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = 20  # of a table that is shown


@dataclass(frozen=True, repr=False)
class Study:
    """Many runs: a study, a comparison of algorithms, or an experiment.

    index: a row per run with its folder `run`, `scenario`, `seed`, `replication`, a column for each parameter, `status`
    (done, diverged, learnt nothing, failed, stale or missing), `error`, and everything in the run's summary.json.
    """

    folder: Path
    study: dict[str, Any]  # as in study.toml
    index: pd.DataFrame

    def __fspath__(self) -> str:
        return str(self.folder)

    def __repr__(self) -> str:
        counts = self.index["status"].value_counts()
        states = ", ".join(f"{count} {status}" for status, count in counts.items())
        table = combinations_table(self.index, self.parameters)
        more = f"\n… and {len(table) - LINES - 1} more combinations" if len(table) > LINES + 1 else ""
        return f"{self.folder}: {len(self.index)} runs, {states}\n{as_text(table[: LINES + 1])}{more}"

    def _repr_html_(self) -> str:
        """The table and its figure, for a notebook."""
        figure = None
        with contextlib.suppress(ValueError):  # nothing is done, or nothing was varied
            figure = self.plot()
        return shown(repr(self), figure)

    def plot(self) -> Figure:
        """The result that the study asks for: algorithms side by side, or the gain over what was varied."""
        from fedmule.analysis.plots import draw_comparison, draw_effect, draw_heat

        free = self.free()
        if free == ["learning.algorithm"]:
            return draw_comparison(self)
        if len(free) == 1:
            return draw_effect(self)
        rest = {key: self.values(key)[0] for key in free[2:]}
        return draw_heat(self, where=rest or None)

    def replay(self, out: str | Path | None = None) -> Path:
        """Write the page of the study, by default into its folder, and return the file."""
        from fedmule.analysis.replay import study_page

        file = Path(out or self.folder / "replay.html")
        write_text(file, study_page(self, {}))
        return file

    @property
    def parameters(self) -> list[str]:
        """What was varied: keys of the scenario, or the columns and cells of an experiment.

        Where there are several scenarios, `scenario` is a parameter too.
        """
        keys = [*self.study["vary"], *(key for table in self.study["zip"] for key in table)]
        several = len(self.study["scenarios"]) > 1 and "scenario" not in keys
        return (["scenario"] if several else []) + keys

    @property
    def done(self) -> pd.DataFrame:
        """The rows of the index whose runs are done: means are over these."""
        return self.index[self.index["status"] == "done"]

    @property
    def ended(self) -> pd.DataFrame:
        """The rows of the index whose runs have ended: those that are done, diverged or have learnt nothing."""
        return self.index[self.index["status"].isin(ENDED)]

    def run(self, name: str) -> Run:
        """One run, by its name in the index."""
        return load_run(self.folder / name)

    def runs(self, where: dict[str, Any] | None = None) -> Iterator[Run]:
        """The runs that are done, or only those with the values given."""
        for name in self.chosen(where)["run"]:
            yield self.run(name)

    def contacts(self, columns: Sequence[str] | None = None, where: dict[str, Any] | None = None) -> pd.DataFrame:
        """The contacts of all runs in one table, with `run`, `seed` and the parameters beside them."""
        rows = self.chosen(where)
        parts = [read_table(self.folder / name, "contacts", columns) for name in rows["run"]]
        if not parts:
            return pd.DataFrame()
        table = pa.concat_tables(parts, promote_options="default").to_pandas()
        lengths = [len(part) for part in parts]
        beside = {key: np.repeat(rows[key].to_numpy(), lengths) for key in ("run", *self.parameters, "seed")}
        contacts: pd.DataFrame = table.assign(**beside)
        return contacts

    def measured(self, name: str, measure: Callable[[pd.DataFrame], float]) -> Study:
        """The study with one more column in its index: a measure of each run's contacts, such as a time to accuracy."""
        done = self.done["run"]
        found = pd.Series([measure(self.run(run).contacts) for run in done], done.index, dtype=float)
        return replace(self, index=self.index.assign(**{name: found}))

    def chosen(self, where: dict[str, Any] | None = None) -> pd.DataFrame:
        """The rows of the index whose runs are done, or only those with the values given."""
        return _matching(self.done, where)

    def values(self, parameter: str, where: dict[str, Any] | None = None) -> list[Any]:
        """The values of a parameter, done or not: numbers ascending, words in the study's order."""
        if parameter not in self.parameters:
            raise ValueError(f"{parameter}: was not varied, only {', '.join(self.parameters) or 'nothing'}")
        found = list(dict.fromkeys(_matching(self.index, where)[parameter]))
        return sorted(found) if pd.api.types.is_numeric_dtype(self.index[parameter]) else found

    def free(self, where: dict[str, Any] | None = None) -> list[str]:
        """The parameters that vary independently and have several values; of keys that go together, the first."""
        together = {key for table in self.study["zip"] for key in list(table)[1:]}
        return [key for key in self.parameters if key not in together and len(self.values(key, where)) > 1]

    def begun(self) -> Study:
        """The study without the values of parameters of which no run is done."""
        rows = self.index
        for key in self.parameters if len(self.done) else []:
            rows = rows[rows[key].isin(self.done[key])]
        return replace(self, index=rows)

    def must_be_all(self, where: dict[str, Any] | None, *parameters: str) -> None:
        """Raise ValueError if other parameters vary too: a mean over them would mix runs that are not alike."""
        points = _matching(self.index, where)[self.parameters].drop_duplicates()
        for key in parameters:
            self.values(key)  # raises if it was not varied
        if points.duplicated(list(parameters)).any():
            others = [key for key in self.free(where) if key not in parameters]
            example = f"{{{others[0]!r}: {self.values(others[0])[0]!r}}}"
            raise ValueError(f"{', '.join(others)} vary too: choose values, such as where={example}")


def _matching(rows: pd.DataFrame, where: dict[str, Any] | None) -> pd.DataFrame:
    for key, value in (where or {}).items():
        rows = rows[rows[key] == value]
    return rows


def load_study(folder: str | os.PathLike[str]) -> Study:
    """The study in a folder, complete or not."""
    folder = Path(folder)
    if not (folder / "index.parquet").is_file():
        raise FileNotFoundError(f"{folder} is not the folder of a study: it has no index.parquet")
    with undamaged(folder):
        study = tomllib.loads((folder / "study.toml").read_text(encoding="utf-8"))
        study = {"name": folder.name, "title": "", **study}
        index = pd.read_parquet(folder / "index.parquet")
        if "status" in index:  # an earlier version called all of them done
            index = index.assign(status=[_status(row) for row in index.to_dict("records")])
        found = Study(folder, study, index)
        _ = (index[["run", "seed", *found.parameters]], found.done)  # it may lack some
    for run in index["run"]:
        if not isinstance(run, str) or Path(run).is_absolute() or ".." in Path(run).parts:
            raise UserError(f"{folder / 'index.parquet'}: names a run that is not in the study's folder: {run}")
    return found


def _status(row: Mapping[Hashable, Any]) -> str:
    """A run's status; one that counts as done may have diverged, or learnt nothing."""
    status = str(row["status"])
    return ending_of({str(name): value for name, value in row.items()}) if status == "done" else status


def combinations_table(index: pd.DataFrame, parameters: Sequence[str]) -> Table:
    """A line per combination: parameters, accuracies in % and cost, mean ± 95 % interval over seeds."""
    several = index["scenario"].nunique() > 1 and "scenario" not in parameters
    keys = (["scenario"] if several else []) + list(parameters)
    table = [
        [
            *(keys or ["scenario"]),
            "personal, %",
            "token, %",
            "gain over alone, points",
            "visits",
            "simulated h",
            "MB on the air",
            "seeds",
        ]
    ]
    groups = index.groupby(keys or ["scenario"], sort=False)
    for values, rows in groups:
        done = rows[rows["status"] == "done"]
        seeds = n_of_n(len(done), len(rows), without_result(rows["status"]))
        named = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
        if not len(done):
            what = "–" if rows["status"].isin(ENDED).any() else "not run"
            table.append([*named, what, *[""] * 5, seeds])
            continue
        sent = on_the_air(done) / 1e6
        accuracies = [
            _mean(100 * done[name].astype(float)) if name in done else "–"
            for name in ("personal_test_acc_mean", "token_test_acc", GAIN)
        ]
        costs = [f"{column.mean():.4g}" for column in (done["visits"], done["sim_time_s"] / 3600, sent)]
        table.append([*named, *accuracies, *costs, seeds])
    return table


def _mean(values: pd.Series[Any]) -> str:
    mean, width = interval(list(values.astype(float)))
    if math.isnan(mean):
        return "–"
    return f"{mean:.2f}" + ("" if width is None else f" ± {width:.2f}")
