"""The contact graphs in a run's log, with the transition matrix and the theory of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from fedmule.analysis.loading import Run
from fedmule.analysis.theory.chain import Chain, FloatArray, IntArray
from fedmule.analysis.theory.formulas import spectral_limit
from fedmule.analysis.theory.linear import DENSE
from fedmule.analysis.theory.mixing import mixing_time, paper_bound, variation_time, weighted_bound
from fedmule.analysis.theory.walks import Law
from fedmule.radio.walks.jumps import LevyJumps
from fedmule.radio.walks.random import Rule, transition_matrix


@dataclass(frozen=True)
class Snapshot:
    """A contact graph in the log and the P that the vehicle used then."""

    visit: int
    sim_time_s: float
    members: IntArray  # clients the vehicle could reach
    law: Law  # P over all clients [n]; a walk at a non-member moves to any member
    chain: Chain  # of the members only
    stationary: FloatArray  # [n] π of the chain, 0 for non-members
    values: dict[str, Any]  # the row of `snapshot_table`


def read_snapshots(run: Run, rule: Rule, jump: float, delta: float, levy: LevyJumps | None = None) -> list[Snapshot]:
    """Compute P at every snapshot of the log, once per distinct graph."""
    n, found = int(run.scenario["clients"]["count"]), []
    known: dict[bytes, Snapshot] = {}
    for visit in np.unique(run.graph["visit"]):
        rows = run.graph[run.graph["visit"] == visit]
        pairs = rows[["a", "b"]].to_numpy(dtype=np.int64)
        if pairs.tobytes() not in known:
            known[pairs.tobytes()] = _snapshot(pairs, n, rule, jump, delta, levy)
        found.append(replace(known[pairs.tobytes()], visit=int(visit), sim_time_s=float(rows["sim_time_s"].iloc[0])))
    return found


def _snapshot(pairs: IntArray, n: int, rule: Rule, jump: float, delta: float, levy: LevyJumps | None) -> Snapshot:
    """Compute a snapshot from the log's rows (a, b): edges, and (i, i) for members without neighbours."""
    members, edges = np.unique(pairs), pairs[pairs[:, 0] != pairs[:, 1]]
    there = np.zeros(n, dtype=bool)
    there[members] = True
    p = transition_matrix(edges, there, rule, 0.0, levy)
    everyone = p if there.all() else p + sp.csr_array(~there[:, None] * (there / len(members)))
    chain = Chain(p[members][:, members], jump)
    stationary = np.zeros(n)
    stationary[members] = chain.stationary
    return Snapshot(0, 0.0, members, Law(everyone, jump, members), chain, stationary, _values(chain, len(edges), delta))


def _values(chain: Chain, edges: int, delta: float) -> dict[str, Any]:
    lowest, exact = float(chain.stationary.min()), chain.n <= DENSE
    return {
        "clients": chain.n,
        "edges": edges,
        "classes": len(chain.closed),
        "period": chain.period,
        "ergodic": chain.ergodic,
        "second_eigenvalue": chain.second,
        "second_modulus": chain.modulus,
        "gap": chain.gap,
        "sigma": chain.sigma,
        "lowest_stationary": lowest,
        "tau_paper": paper_bound(chain.sigma, lowest, delta),
        "tau_weighted": weighted_bound(chain, delta),
        "tau_exact": mixing_time(chain, delta) if exact else math.nan,
        "tau_variation": variation_time(chain, delta) if exact else math.nan,
        "spectral_limit": spectral_limit(edges),
        "spectral_test": chain.modulus < spectral_limit(edges),
    }


def snapshot_table(snapshots: Sequence[Snapshot]) -> pd.DataFrame:
    """Table with a row per snapshot; docs/theory.md explains every column."""
    return pd.DataFrame([{"visit": s.visit, "sim_time_s": s.sim_time_s, **s.values} for s in snapshots])


def graph_table(run: Run) -> pd.DataFrame:
    """Table with a row per snapshot for runs without a walk: clients and edges."""
    rows = [
        {"visit": visit, "sim_time_s": at, "clients": len(np.unique(g[["a", "b"]])), "edges": (g["a"] != g["b"]).sum()}
        for (visit, at), g in run.graph.groupby(["visit", "sim_time_s"])
    ]
    return pd.DataFrame(rows, columns=["visit", "sim_time_s", "clients", "edges"])
