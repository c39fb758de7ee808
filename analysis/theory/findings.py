"""Everything the theory says about one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast, get_args

import numpy as np
import pandas as pd

from fedmule.analysis.loading import Run
from fedmule.analysis.theory.chain import IntArray
from fedmule.analysis.theory.linear import DENSE
from fedmule.analysis.theory.overall import OverallWalk, overall_walk
from fedmule.analysis.theory.snapshots import graph_table, read_snapshots, snapshot_table
from fedmule.radio.walks.jumps import LevyJumps
from fedmule.radio.walks.random import Rule
from fedmule.simulator.streams import Streams


@dataclass(frozen=True)
class Theory:
    """What the theory says about a run; `as_text` turns it into a report with a note on each figure."""

    name: str
    n: int  # clients
    visits: int
    rule: str  # vehicle.walk
    jump: float
    delta: float  # δ: relative distance from π that counts as mixed
    omega: float  # ω: squared gradient that the bounds aim at
    snapshots: pd.DataFrame  # a row per snapshot of the graph
    clients: pd.DataFrame  # a row per client: visits, stationary, age_visits, age_s
    ages: pd.DataFrame  # a row per visit: oldest and mean age, in visits
    covered_at: int | None  # visit by which every client had been visited; None if some never were
    walk: OverallWalk | None  # None if the walk is not a Markov chain on the graph, or no graph was logged
    why_not: str  # why `walk` is None; empty otherwise
    smoothness: float | None  # L; None if unknown
    beta: float | None


def theory(run: Run, delta: float = 0.5, omega: float = 0.01) -> Theory:
    """Apply the theory to a run. δ: relative distance from π that counts as mixed; ω: squared gradient to aim at."""
    vehicle, n = run.scenario["vehicle"], int(run.scenario["clients"]["count"])
    keys: dict[str, Any] = {"kind": vehicle["walk"]} if isinstance(vehicle["walk"], str) else vehicle["walk"]
    rule, levy = str(keys.get("kind")), None
    jump = float(vehicle["jump"])
    visits = run.visits.dropna(subset=["client"]).sort_values("visit")
    clients, ages, covered_at = _ages(visits, n)
    table, walk = graph_table(run), None
    why_not = _why_not(run, rule, len(visits))
    if not why_not:
        levy = LevyJumps(**keys["levy"]) if keys.get("levy") else None
        snapshots = read_snapshots(run, cast(Rule, rule), jump, delta, levy)
        table = snapshot_table(snapshots)
        generator = Streams(int(run.scenario["seed"])).generator("theory")
        tau = table["tau_exact" if snapshots[-1].chain.n <= DENSE else "tau_weighted"].iloc[-1]
        walk = overall_walk(snapshots, _walks(visits), jump, generator, float(tau), omega, delta)
        clients.insert(2, "stationary", walk.stationary)
    return Theory(
        name=str(run.scenario["name"]),
        n=n,
        visits=len(visits),
        rule=rule if levy is None else f"{rule} with Lévy jumps ({levy.chance:g})",
        jump=jump,
        delta=delta,
        omega=omega,
        snapshots=table,
        clients=clients,
        ages=ages,
        covered_at=covered_at,
        walk=walk,
        why_not=why_not,
        smoothness=run.summary.get("smoothness"),
        beta=run.summary.get("beta"),
    )


def _why_not(run: Run, rule: str, visits: int) -> str:
    """Reason why there is no P(k); empty if there is."""
    if run.scenario["learning"]["server"] != "vehicle":
        return "an ideal server reaches clients wherever they are, so there is no walk"
    if rule not in get_args(Rule):
        return f"vehicle.walk = {rule} is not a Markov chain on the contact graph"
    if run.graph.empty:
        return "no graph was logged: log.graph_every is 0, or greater than the number of visits"
    return "" if visits else "nobody was visited"


def _walks(visits: pd.DataFrame) -> list[tuple[IntArray, IntArray]]:
    """Visits of each vehicle: their numbers and clients."""
    return [
        (rows["visit"].to_numpy(np.int64), rows["client"].to_numpy(np.int64)) for _, rows in visits.groupby("vehicle")
    ]


def _ages(visits: pd.DataFrame, n: int) -> tuple[pd.DataFrame, pd.DataFrame, int | None]:
    """Age of each client at the end (since its last visit, or else since the start), ages over time, and coverage."""
    number, client = visits["visit"].to_numpy(np.int64), visits["client"].to_numpy(np.int64)
    end, end_s = (int(number[-1]), float(visits["sim_time_s"].iloc[-1])) if len(number) else (0, 0.0)
    last, last_s, rows = np.zeros(n, dtype=np.int64), np.zeros(n), []
    for k, c, at in zip(number, client, visits["sim_time_s"], strict=True):
        last[c], last_s[c] = k, at
        rows.append((k, k - last.min(), k - last.mean()))
    count = np.bincount(client, minlength=n)
    per_client = {"client": np.arange(n), "visits": count, "age_visits": end - last, "age_s": end_s - last_s}
    first = visits.groupby("client")["visit"].min()
    ages = pd.DataFrame(rows, columns=["visit", "oldest", "mean"])
    return pd.DataFrame(per_client), ages, int(first.max()) if (count > 0).all() else None
