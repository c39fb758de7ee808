"""The theory of a run as a Markdown report: figures, with a note on each."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from fedmule.analysis.result_tables import as_markdown
from fedmule.analysis.theory.findings import Theory
from fedmule.analysis.theory.formulas import least_beta
from fedmule.analysis.theory.linear import DENSE
from fedmule.analysis.theory.overall import OverallWalk

# Columns of the snapshots: label, and note.
NOTES = {
    "clients": ("clients the vehicle can reach", ""),
    "edges": ("edges m", ""),
    "classes": ("closed classes", "above 1: some clients are never visited from some starts, and τ = ∞"),
    "period": ("period", "2 on even cycles, paths and stars with 1/deg: τ = ∞; walk = lazy or jump > 0 avoids it"),
    "second_eigenvalue": ("λ₂", "ignores periods: on an even cycle it is below 1 although the walk never mixes"),
    "second_modulus": ("second-largest modulus", "the rate at which the start is forgotten; the paper writes λ₂"),
    "gap": ("spectral gap, 1 − modulus", ""),
    "sigma": ("σ(P)", "the second modulus if P = Pᵀ; with 1/deg it can be 1 or more, and then bounds nothing"),
    "lowest_stationary": (
        "π_*, the lowest π_i",
        "deg/2m for 1/deg without jumps; 1/n for metropolis if every client has a neighbour",
    ),
    "tau_paper": ("τ(δ), the paper's bound", "ln(√2/(δπ_*)) / (1 − σ(P)); ∞ if σ(P) ≥ 1"),
    "tau_weighted": ("τ(δ), bound weighted by π", "ln(√(π^*/π_*)/(δπ_*)) / (1 − σ_π); use this if σ(P) ≥ 1"),
    "tau_exact": ("τ(δ), exact", "every row of P^τ within δπ_* of π"),
    "tau_variation": ("moves to total variation δ", "the usual, weaker sense of mixing"),
    "spectral_limit": ("1 − 1/m^⅔", "the paper requires the “maximum eigenvalue”, which is always 1, to be below it"),
    "spectral_test": ("modulus < 1 − 1/m^⅔", "share of the snapshots that pass, tested with the second modulus"),
}


def as_text(found: Theory) -> str:
    """Write the report on a run, in Markdown."""
    parts = [
        f"# The walk of {found.name or 'a run'}, and the theory",
        f"{found.n} clients, {found.visits} visits; vehicle.walk = {found.rule}, jump = {found.jump:g}; "
        f"δ = {found.delta:g}, ω = {found.omega:g}.",
    ]
    if found.walk is None:
        parts.append(f"No P(k): {found.why_not}. Visits, ages and coverage are below.")
    else:
        count = len(found.snapshots)
        parts += [
            f"P(k) at {count} snapshot{'s' * (count > 1)}; each row is one figure over time:",
            as_markdown(_table(found.snapshots)),
        ]
        parts.append("\n".join(f"- {line}" for line in _walk_lines(found, found.walk)))
    parts += [
        "\n".join(f"- {line}" for line in _visit_lines(found)),
        "\n".join(f"- {line}" for line in _learning(found)),
    ]
    return "\n\n".join(parts) + "\n"


def _table(snapshots: pd.DataFrame) -> list[list[str]]:
    table = [["", "median", "lowest", "highest", "last", "note"]]
    for column, (name, note) in NOTES.items():
        values = snapshots[column]
        if values.dtype == bool:
            table.append([name, f"{100 * values.mean():.0f} %", "", "", "yes" if values.iloc[-1] else "no", note])
        elif values.notna().any():
            shown = (float(np.quantile(values, 0.5, method="lower")), values.min(), values.max(), values.iloc[-1])
            table.append([name, *map(_number, shown), note])
        else:
            table.append([name, "–", "–", "–", "–", f"not computed beyond {DENSE} clients"])
    return table


def _walk_lines(found: Theory, walk: OverallWalk) -> list[str]:
    phi, bounds = walk.products, walk.communication
    moves = len(phi.apart)
    rate = (
        "it does not decrease geometrically"
        if math.isnan(phi.rate)
        else f"it decreases by a factor of {phi.rate:.4f} per move"
    )
    holds = (
        "its conditions hold here"
        if walk.lemma_holds
        else "its conditions (doubly stochastic, P_ii > 0, the same clients, connected within Q) do not hold here"
    )
    lines = [
        f"Φ = P(1)…P({moves}): the distribution of the next visit from the worst start is at a distance of "
        f"{_number(phi.apart[-1])} (total variation) from that of a uniformly random start; {rate}"
        + (f" (jumps alone give {1 - found.jump:g})." if found.jump > 0 else "."),
        f"Largest |Φ_ij − 1/n|: {_number(phi.uneven[-1])}; the paper's lemma says at most {_number(walk.lemma[-1])} "
        f"(η = {_number(walk.smallest)}, Q = {_number(walk.window)}), and {holds}. Φ → 1/n only if P is doubly "
        "stochastic; otherwise its rows tend to π, and if P(k) changes they agree with each other but keep changing.",
        f"P_max: largest row sum {_number(walk.most_row_sum)} (1 only if P never changes), σ(P_max) = "
        f"{_number(walk.max_sigma)} against {_number(found.snapshots['sigma'].max())}, the largest σ(P(k)). "
        "σ(P) ≤ σ(P_max), which the paper uses, does not hold in general.",
        f"Visits until ω = {found.omega:g}, orders of magnitude without constants: {_number(bounds.walk)} from τ, "
        f"{_number(bounds.symmetric)} from the formula for P = Pᵀ (with the second modulus, not λ₂); Per-FedAvg "
        f"{_number(bounds.per_fedavg)}, APFL {_number(bounds.apfl)} rounds. As ω → 0, APFL's ω^(−3/4) is the "
        "lowest order of them, whatever n is.",
        f"Cover time: {_estimate(walk)} moves along these P(k)"
        + ("" if math.isnan(walk.matthews[0]) else f"; on the last graph Matthews' bounds {_range(walk.matthews)}")
        + ".",
    ]
    if walk.chance is not None:
        c = walk.chance
        verdict = (
            "consistent with the theory" if c.p >= 0.01 else "unlikely by chance: the vehicle did not follow these P(k)"
        )
        lines.append(
            f"Visits against π: total variation {c.distance:.3f}; walks drawn from the same P(k) have {c.low:.3f} to "
            f"{c.high:.3f} (95 %), mean {c.expected:.3f}; p = {c.p:.3f}: {verdict}. (Graphs may change between "
            "snapshots, and clients not reached are not visited: log.graph_every = 1 makes it exact except for those.)"
        )
    return lines


def _visit_lines(found: Theory) -> list[str]:
    clients = found.clients
    never = int((clients["visits"] == 0).sum())
    everyone = (
        f"by visit {found.covered_at}" if found.covered_at is not None else f"not yet: {never} were never visited"
    )
    oldest = clients.iloc[int(np.argmax(clients["age_visits"]))]
    return [
        f"Everyone visited: {everyone}.",
        f"Age at the end, in visits since a client's last one: mean {clients['age_visits'].mean():.1f}, oldest "
        f"{oldest['age_visits']:.0f} (client {oldest['client']:.0f}, {oldest['age_s']:.0f} s).",
    ]


def _learning(found: Theory) -> list[str]:
    if found.smoothness is None:
        known = (
            "L is unknown: only runs of rwsadmm with logistic regression log it; neural networks have no such bound."
        )
        return [f"β > 2L² + L + 2: {known}"]
    least = least_beta(found.smoothness)
    meets = found.beta is not None and found.beta > least
    return [
        f"L = {found.smoothness:.4g}, so the proof requires β > 2L² + L + 2 = {least:.4g}; β = {found.beta:g} "
        f"{'meets' if meets else 'does not meet'} it. This is not enforced: with β that large, learning is too slow to "
        "be useful.",
        "The theorem's limit x_i* = y* is consensus: it says nothing about eps > 0, which personal models need.",
    ]


def _estimate(walk: OverallWalk) -> str:
    c = walk.cover
    return "∞" if math.isinf(c.mean) else f"{c.mean:.0f} (95 %: {c.low:.0f} to {c.high:.0f})"


def _range(bounds: tuple[float, float]) -> str:
    return f"{_number(bounds[0])} to {_number(bounds[1])}"


def _number(value: float) -> str:
    if math.isinf(value):
        return "∞"
    if math.isnan(value):
        return "–"
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e7 else f"{value:.4g}"
