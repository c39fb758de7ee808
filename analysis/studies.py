"""Parameter studies as pandas tables."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.experiments import Table, interval
from analysis.loading import Run, load_run
from analysis.measures import SENT
from simulator.tables import read_table


@dataclass(frozen=True)
class Study:
    """A parameter study.

    index: a row per run with its folder `run`, `scenario`, `seed`, `replication`, a column for each varied key by its
    dotted name, `status` (done, failed or missing), `error`, and everything in the run's summary.json.
    """

    folder: Path
    study: dict[str, Any]  # as in study.toml
    index: pd.DataFrame

    @property
    def parameters(self) -> list[str]:
        """The keys that were varied; `scenario` where there are several."""
        keys = [*self.study["vary"], *(key for table in self.study["zip"] for key in table)]
        return (["scenario"] if len(self.study["scenarios"]) > 1 else []) + keys

    @property
    def done(self) -> pd.DataFrame:
        """The rows of the index whose runs are done."""
        return self.index[self.index["status"] == "done"]

    def run(self, name: str) -> Run:
        """One run, by its name in the index."""
        return load_run(self.folder / name)

    def runs(self, where: dict[str, Any] | None = None) -> Iterator[Run]:
        """The runs that are done, or those of them with the values given."""
        for name in self._chosen(where)["run"]:
            yield self.run(name)

    def contacts(self, columns: Sequence[str] | None = None, where: dict[str, Any] | None = None) -> pd.DataFrame:
        """The contacts of all runs in one table, with `run`, `seed` and the parameters beside them."""
        parts = []
        for row in self._chosen(where).to_dict("records"):
            table = read_table(self.folder / row["run"], "contacts")
            part = (table if columns is None else table.select(list(columns))).to_pandas()
            beside = {key: row[key] for key in ("run", *self.parameters, "seed")}
            parts.append(part.assign(**beside))
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

    def _chosen(self, where: dict[str, Any] | None) -> pd.DataFrame:
        chosen = self.done
        for key, value in (where or {}).items():
            chosen = chosen[chosen[key] == value]
        return chosen


def load_study(folder: str | Path) -> Study:
    """The study in a folder, complete or not."""
    folder = Path(folder)
    if not (folder / "index.parquet").is_file():
        raise FileNotFoundError(f"{folder} is not a study's folder: it has no index.parquet")
    study = tomllib.loads((folder / "study.toml").read_text(encoding="utf-8"))
    return Study(folder, study, pd.read_parquet(folder / "index.parquet"))


def points_table(index: pd.DataFrame, parameters: Sequence[str]) -> Table:
    """A line per point: parameters, accuracies in % and cost, mean ± 95 % interval over seeds."""
    keys = (["scenario"] if index["scenario"].nunique() > 1 else []) + list(parameters)
    table = [[*(keys or ["scenario"]), "personal, %", "token, %", "visits", "simulated h", "MB on the air", "seeds"]]
    groups = index.groupby(keys or ["scenario"], sort=False)
    for values, rows in groups:
        done = rows[rows["status"] == "done"]
        seeds = f"{len(done)}" if len(done) == len(rows) else f"{len(done)} of {len(rows)}"
        named = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
        if not len(done):
            table.append([*named, "not run", "", "", "", "", seeds])
            continue
        sent = done[[name for name in SENT if name in done]].sum(axis=1) / 1e6
        accuracies = [_mean(100 * done[name]) for name in ("personal_test_acc_mean", "token_test_acc")]
        costs = [f"{column.mean():.4g}" for column in (done["visits"], done["sim_time_s"] / 3600, sent)]
        table.append([*named, *accuracies, *costs, seeds])
    return table


def _mean(values: pd.Series[Any]) -> str:
    mean, width = interval(list(values.astype(float)))
    if math.isnan(mean):
        return "–"
    return f"{mean:.2f}" + ("" if width is None else f" ± {width:.2f}")
