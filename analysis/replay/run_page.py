"""The replay page of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedmule.analysis.loading import Run, has_positions, movement_in_words
from fedmule.analysis.measures import ALONE
from fedmule.analysis.replay.arrays import Arrays
from fedmule.analysis.replay.differences import differences
from fedmule.analysis.replay.ground import ground_of
from fedmule.analysis.replay.groups import groups_of
from fedmule.analysis.replay.page import page
from fedmule.analysis.replay.placing import placed
from fedmule.analysis.replay.tracks import Frame, add_tracks, frame_of, tracks_of

STYLES = ("base.css", "run.css")
SCRIPTS = (
    *("text.js", "colours.js", "theme.js", "arrays.js", "accuracies.js", "marks.js", "history.js", "view.js"),
    *("ground.js", "map.js", "chart.js", "curves.js", "card.js", "player.js", "gestures.js", "keys.js", "legend.js"),
    *("picture.js", "stage.js", "run.js"),
)
MOST_EVALUATED = 2_000_000  # clients × evaluations; above that, only every second, third, … evaluation is shown
ACCURACY_STEPS = 10_000
MOST_IN_TITLE, MOST_DIFFERENCES = 3, 40  # between two runs, in titles and in the table
UNKNOWN = 65535  # marks an unknown accuracy


def run_page(run: Run, beside: Run | None = None, *, client: int | None = None) -> str:
    """The page that replays a run, finished or not, as HTML; or two runs side by side.

    `client` is the client whose numbers are shown at first.
    """
    runs = [run] if beside is None else [run, beside]
    differing = [] if beside is None else differences(run.scenario, beside.scenario)
    titles = _titles(runs, differing)
    packed = [Arrays() for _ in runs]
    shown = [_content(run, arrays, title) for run, arrays, title in zip(runs, packed, titles, strict=True)]
    names = list(dict.fromkeys(str(run.manifest["name"]) for run in runs))
    title = " | ".join(names)
    endings = list(dict.fromkeys(filter(None, map(_ending, runs))))
    content = {
        "title": title,
        "facts": facts_of(run) if beside is None else _facts_of_two(runs, differing),
        "ending": " | ".join(endings),
        "differences": differing[:MOST_DIFFERENCES],
        "client": client,
        "runs": shown,
    }
    arrays = "\n".join(part.text() for part in packed)
    return page("run.html", STYLES, SCRIPTS, f"{title} · Fedmule", content, arrays)


def _content(run: Run, arrays: Arrays, title: str) -> dict[str, Any]:
    """What the page has of a run, besides the arrays that are added."""
    clients, (found, size_m) = int(run.scenario["clients"]["count"]), placed(run)
    track, contacts = found.track, found.contacts.sort_values("sim_time_s", kind="stable")
    vehicles = sorted({int(i) for i in track.loc[track["node"] == "vehicle", "id"]})
    end_s = max(float(table["sim_time_s"].max()) for table in (track, contacts, run.clients) if len(table))
    frame = frame_of(track, size_m, end_s)
    groups = groups_of(run)
    exact_to_m = add_tracks(arrays, tracks_of(track, vehicles, clients), frame, len(vehicles) + clients)
    _add_contacts(arrays, contacts, frame, vehicles)
    _add_evaluations(arrays, run.clients, frame, clients)
    arrays.add("client_group", groups.of.astype(np.uint16))
    return {
        "title": title,
        "size_m": size_m,
        "schematic": not has_positions(run.scenario),
        "ground": ground_of(run.scenario),
        "range_m": range_of(run),
        "shadowed": bool(_table(run.scenario["radio"]).get("shadowing")),
        "vehicles": vehicles,
        "clients": clients,
        "groups": groups.names,
        "end_s": end_s,
        "tick_s": frame.tick_s,
        "corner_m": frame.corner_m,
        "step_m": frame.step_m,
        "exact_to_m": exact_to_m,
        "start": start_of(run.clients),
        "accuracy_steps": ACCURACY_STEPS,
        "arrays": arrays.layout,
    }


def range_of(run: Run) -> float | None:
    """Range of the radio on open ground in metres, if it is known."""
    return run.manifest.get("range_m") or _table(run.scenario["radio"]).get("range_m")


def _titles(runs: Sequence[Run], differing: Sequence[tuple[str, str, str]]) -> list[str]:
    """What each of the runs is called above its map: its name, if names differ, and what is different about it."""
    names = [str(run.manifest["name"]) for run in runs]
    if len(runs) == 1 or len(set(names)) > 1:
        return names
    if not differing:
        return [str(run.folder) for run in runs]
    shown = differing[:MOST_IN_TITLE]
    return ["; ".join(f"{row[0]}: {row[i + 1]}" for row in shown) for i in range(len(runs))]


def _facts_of_two(runs: Sequence[Run], differing: Sequence[tuple[str, str, str]]) -> list[str]:
    """What differs between two runs, and of their descriptions what they have in common."""
    first, other = (facts_of(run) for run in runs)
    common = [fact for fact in first if fact in other]
    if not differing:
        return ["the same scenario and seed", *common]
    if len({run.manifest["name"] for run in runs}) > 1:
        return common
    shown = [f"{name}: {a} | {b}" for name, a, b in differing[:MOST_IN_TITLE]]
    rest = len(differing) - len(shown)
    return [*shown, *([_counted(rest, "other difference")] if rest else []), *common]


def _add_contacts(arrays: Arrays, contacts: pd.DataFrame, frame: Frame, vehicles: list[int]) -> None:
    """Add contacts in the order in which they ended; `ids` and `delivered` are concatenated over all contacts."""
    order = {vehicle: i for i, vehicle in enumerate(vehicles)}
    ends = contacts["sim_time_s"].to_numpy(dtype=float)
    active = [np.asarray(ids, dtype=np.uint32) for ids in contacts["active_ids"]]
    delivered = [np.isin(a, d) for a, d in zip(active, contacts["delivered_ids"], strict=True)]
    arrays.add("contact_end", frame.ticks(ends), differences=True)
    arrays.add("contact_ticks", frame.ticks(contacts["contact_s"].to_numpy(dtype=float)))
    arrays.add("contact_passing", contacts["in_passing"].to_numpy(dtype=np.uint8))
    arrays.add("contact_client", contacts["client"].to_numpy(dtype=np.uint32))
    arrays.add("contact_vehicle", np.array([order.get(v, 0) for v in contacts["vehicle"]], dtype=np.uint16))
    arrays.add("contact_x", frame.steps(contacts["vehicle_x_m"].to_numpy(dtype=float), 0))
    arrays.add("contact_y", frame.steps(contacts["vehicle_y_m"].to_numpy(dtype=float), 1))
    arrays.add("contact_active", np.array([len(a) for a in active], dtype=np.uint32))
    arrays.add("contact_ids", np.concatenate([np.zeros(0, dtype=np.uint32), *active]))
    arrays.add("contact_delivered", np.concatenate([np.zeros(0, dtype=np.uint8), *delivered]).astype(np.uint8))
    arrays.add("contact_accuracy", _accuracy_at(contacts, active))
    for name in ("personal_test_acc_mean", "token_test_acc", ALONE):
        arrays.add(name, contacts.get(name, pd.Series(np.nan, contacts.index)).to_numpy(dtype=np.float32))
    for name in ("bytes_down", "bytes_up"):
        arrays.add(name, np.cumsum(contacts[name].to_numpy(dtype=np.float64)), differences=True)


def _accuracy_at(contacts: pd.DataFrame, active: Sequence[NDArray[Any]]) -> NDArray[np.uint16]:
    """Accuracy of every active client after its contact, in steps; unknown where it was lost or not evaluated."""
    found = [np.full(len(ids), np.nan) for ids in active]
    if "delivered_test_acc" in contacts:  # older runs lack it
        rows = zip(found, active, contacts["delivered_ids"], contacts["delivered_test_acc"], strict=True)
        for values, asked, delivered, accuracies in rows:
            if accuracies is not None:
                known = dict(zip(delivered, accuracies, strict=True))
                values[:] = [known.get(client, np.nan) for client in asked]
    return _in_steps(np.concatenate([np.zeros(0), *found]))


def _in_steps(accuracy: NDArray[np.float64]) -> NDArray[np.uint16]:
    return np.where(np.isnan(accuracy), UNKNOWN, np.round(accuracy * ACCURACY_STEPS)).astype(np.uint16)


def _add_evaluations(arrays: Arrays, clients: pd.DataFrame, frame: Frame, count: int) -> None:
    """Add the results of every client at each evaluation: [clients, evaluations], client by client."""
    when = clients.groupby("contact")["sim_time_s"].first()
    stride = max(1, -(-count * len(when) // MOST_EVALUATED))
    shown = np.unique(np.append(np.arange(0, len(when), stride), max(len(when) - 1, 0)))[: len(when)]
    when = when.iloc[shown]
    rows = clients[clients["contact"].isin(when.index)]
    position = (rows["client"].to_numpy(), when.index.get_indexer(pd.Index(rows["contact"])))

    def grid(name: str, kind: type, fill: float = 0) -> NDArray[Any]:
        values = np.full((count, len(when)), fill, dtype=np.float64)
        values[position] = rows[name].to_numpy(dtype=np.float64)
        return values.astype(kind)

    accuracy = grid("test_acc", np.float64, np.nan)
    arrays.add("evaluation_tick", frame.ticks(when.to_numpy(dtype=float)), differences=True)
    arrays.add("evaluation_contact", when.index.to_numpy(dtype=np.uint32), differences=True)
    arrays.add("accuracy", _in_steps(accuracy), differences=True)
    arrays.add("client_gradient_steps", grid("gradient_steps", np.uint32), differences=True)
    for name in ("bytes_down", "bytes_up"):
        arrays.add(f"client_{name}", grid(name, np.float64), differences=True)


def start_of(clients: pd.DataFrame) -> dict[str, float | None]:
    """Mean accuracies before the first contact, at which the curves start."""
    first = clients[clients["contact"] == 0]
    means = {"personal": first["test_acc"].mean(), "token": first["token_test_acc"].mean()}
    means["alone"] = first["alone_test_acc"].mean() if "alone_test_acc" in first else np.nan
    return {name: None if pd.isna(mean) else float(mean) for name, mean in means.items()}


def facts_of(run: Run) -> list[str]:
    """Short description of the run: algorithm, clients, vehicles, radio, seed."""
    scenario = run.scenario
    learning, clients, vehicle = scenario["learning"], scenario["clients"], scenario["vehicle"]
    vehicles = run.track.loc[run.track["node"] == "vehicle", "id"].nunique()  # 0: the map is schematic
    return [
        " · ".join(_kind(learning[name]) for name in ("algorithm", "model", "dataset")),
        f"{_counted(int(clients['count']), 'client')}, {movement_in_words(scenario)}",
        _counted(vehicles or int(vehicle["count"]), "vehicle")
        + (f", {vehicle['speed_mps']:g} m/s" if has_positions(scenario) else ""),
        _kind(scenario["radio"]),
        f"seed {scenario['seed']}",
    ]


def _ending(run: Run) -> str:
    """Why the run is unfinished; empty if it finished."""
    if run.finished:
        return ""
    stopped_by = run.manifest.get("stopped_by")
    return f"unfinished: {str(stopped_by).replace('_', ' ')}" if stopped_by else "unfinished"


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}" + ("" if count == 1 else "s")


def _kind(value: Any) -> str:
    return str(_table(value).get("kind", ""))


def _table(value: Any) -> dict[str, Any]:
    """A part of a scenario as a table; it may be given by its kind alone."""
    return value if isinstance(value, dict) else {"kind": value}
