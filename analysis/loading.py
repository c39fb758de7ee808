"""Run folders as pandas tables."""

from __future__ import annotations

import base64
import html
import io
import json
import os
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyarrow import ArrowException

from fedmule.simulator.errors import UserError
from fedmule.simulator.runs.columns import TABLES
from fedmule.simulator.runs.digests import changed_file
from fedmule.simulator.runs.folder import write_text
from fedmule.simulator.runs.progress import summary_text
from fedmule.simulator.runs.tables import read_table

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.figure import Figure

    from fedmule.learning.kept import Predictor


@dataclass(frozen=True, repr=False)
class Run:
    """One run: its tables, its scenario, and how it ended.

    contacts: a row per visit and per contact in passing. clients: a row per client per evaluation. track: waypoints,
    linear in between. graph: the contact graph at snapshots, edges and (i, i) for clients without any. meetings: a row
    per meeting of two vehicles. docs/columns.md explains every column.
    """

    folder: Path
    scenario: dict[str, Any]
    manifest: dict[str, Any]
    summary: dict[str, Any]  # empty for a run that has not ended
    contacts: pd.DataFrame
    clients: pd.DataFrame
    track: pd.DataFrame
    graph: pd.DataFrame
    meetings: pd.DataFrame = field(default_factory=pd.DataFrame)

    def __fspath__(self) -> str:
        return str(self.folder)

    def __repr__(self) -> str:
        if not self.summary:
            return f"{self.folder}: a run under way or killed, {len(self.contacts)} contacts so far"
        return summary_text(self.summary, str(self.folder), hints=False)  # type: ignore[arg-type]

    def _repr_html_(self) -> str:
        """The summary and its figure, for a notebook."""
        return shown(repr(self), self.plot() if len(self.contacts) else None)

    def plot(self) -> Figure:
        """The map and the accuracies, as a figure."""
        from fedmule.analysis.plots import draw_run

        return draw_run(self)

    def replay(self, out: str | Path | None = None) -> Path:
        """Write the page that plays the run on its map, by default into its folder, and return the file."""
        from fedmule.analysis.replay import run_page

        file = Path(out or self.folder / "replay.html")
        write_text(file, run_page(self))
        return file

    @property
    def visits(self) -> pd.DataFrame:
        """The contacts without those in passing: a row per visit, or per round of an ideal server."""
        return self.contacts[~self.contacts["in_passing"].astype(bool)]

    @property
    def finished(self) -> bool:
        """Whether it came to its end: not under way, interrupted or killed."""
        return bool(self.manifest["finished"])

    def model(self, client: int | None = None, token: bool | None = None, allow_plugins: bool = False) -> Predictor:
        """A torch module with what the run has learnt: a client's personal model, or the token without a client.

        It takes samples as they are in the data, and returns class scores. `token` gives the token that the client
        would receive. A model class of your own is imported only with `allow_plugins`.
        """
        from fedmule.simulator.runs.models import load_model

        return load_model(self.folder, client, token, allow_plugins)

    def export(
        self, file: str | Path, client: int | None = None, token: bool | None = None, allow_plugins: bool = False
    ) -> None:
        """Write a model that `model` would return as an ONNX file; needs the extra `onnx`."""
        from fedmule.simulator.runs.onnx_file import export_model

        export_model(self.folder, Path(file), client, token, allow_plugins)

    def graph_at(self, visit: int) -> nx.Graph[int]:
        """The last contact graph logged at or before a visit."""
        import networkx as nx

        earlier = self.graph[self.graph["visit"] <= visit]
        last = earlier[(earlier["visit"] == earlier["visit"].max()) & (earlier["a"] != earlier["b"])]
        graph: nx.Graph[int] = nx.Graph()
        graph.add_nodes_from(range(self.scenario["clients"]["count"]))
        graph.add_edges_from(last[["a", "b"]].itertuples(index=False, name=None))
        return graph


def shown(text: str, figure: Figure | None) -> str:
    """A text and a figure as HTML, for a notebook."""
    picture = ""
    if figure is not None:
        stream = io.BytesIO()
        figure.savefig(stream, format="png", dpi=80)
        picture = f'<img src="data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}">'
    return f"<pre>{html.escape(text)}</pre>{picture}"


def load_run(folder: str | os.PathLike[str]) -> Run:
    """Load the run in a folder: finished, under way or killed. Raises UserError if it is damaged."""
    folder = Path(folder)
    if not (folder / "manifest.json").is_file():
        raise FileNotFoundError(f"{folder} is not a run folder: it has no manifest.json")
    with undamaged(folder):
        manifest = _table_in(folder / "manifest.json", json.loads)
        recorded = manifest.get("digests")
        if isinstance(recorded, dict) and (file := changed_file(folder, recorded)):
            raise UserError(f"{folder / file}: has changed since the run ended")
        return _run_in(folder, manifest)


@contextmanager
def undamaged(folder: Path) -> Iterator[None]:
    """Turn what readers raise on damaged files into a UserError that names the folder."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, ArrowException) as error:
        text = str(error).strip().splitlines()
        raise UserError(f"{folder}: cannot be read, a file is damaged: {text[0] if text else repr(error)}") from None


def _table_in(file: Path, parse: Callable[[str], Any]) -> dict[str, Any]:
    """The table that a JSON or TOML file holds."""
    table = parse(file.read_text(encoding="utf-8"))
    if not isinstance(table, dict):
        raise UserError(f"{file}: holds no table")
    return table


def _run_in(folder: Path, manifest: dict[str, Any]) -> Run:
    summary = folder / "summary.json"
    tables = {name: read_table(folder, name).to_pandas() for name in TABLES}
    for name in ("contacts", "clients"):
        if "contact" not in tables[name]:  # of an earlier version, in which every contact was a visit
            tables[name].insert(0, "contact", tables[name]["visit"])
    if "in_passing" not in tables["contacts"]:
        tables["contacts"].insert(2, "in_passing", False)
    return Run(
        folder=folder,
        scenario=_table_in(folder / "scenario.toml", tomllib.loads),
        manifest={"finished": False, **manifest},
        summary=_table_in(summary, json.loads) if summary.exists() else {},
        **tables,
    )


def mobility_tables(scenario: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """How the clients of a resolved scenario move: a table for each group, by its name; under "" without groups."""
    clients = scenario["clients"]
    groups = clients.get("groups") or [{"name": ""}]
    named = {group["name"] or (str(i) if "groups" in clients else ""): group for i, group in enumerate(groups)}
    given = {name: group.get("mobility", clients["mobility"]) for name, group in named.items()}
    return {name: part if isinstance(part, dict) else {"kind": part} for name, part in given.items()}


def has_positions(scenario: dict[str, Any]) -> bool:
    """Whether anybody in a resolved scenario has a position: not where vehicles are nodes of a contact list."""
    vehicle = scenario["vehicle"]
    return not any("follows" in table for table in (vehicle, *vehicle.get("fleet", ())))


def movement_in_words(scenario: dict[str, Any]) -> str:
    """The mobility model of the clients, or those of their groups."""
    tables = mobility_tables(scenario).items()
    return ", ".join(f"{name}: {part['kind']}" if name else str(part["kind"]) for name, part in tables)
