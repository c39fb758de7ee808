"""The theory of a run as a Markdown page: figures, and beside them what to know about them."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from fedmule.analysis.experiments import as_markdown
from fedmule.analysis.theory.bounds import least_beta
from fedmule.analysis.theory.linear import DENSE
from fedmule.analysis.theory.runs import Theory
from fedmule.analysis.theory.whole import Whole

# Columns of the snapshots: what they are called, and what to know.
NOTES = {
    "clients": ("clients the vehicle can drive to", ""),
    "edges": ("edges m", ""),
    "classes": ("closed classes", "more than 1: some clients are never visited from some starts, and τ = ∞"),
    "period": ("period", "2 on even cycles, paths and stars under 1/deg: τ = ∞; lazy or jump > 0 cures it"),
    "second_eigenvalue": ("λ₂", "blind to periods: on an even cycle it is below 1 though nothing mixes"),
    "second_modulus": ("second-largest modulus", "what the rate of forgetting is; the paper writes λ₂"),
    "gap": ("spectral gap, 1 − modulus", ""),
    "sigma": ("σ(P)", "the second modulus if P = Pᵀ; may be 1 or more for 1/deg, and then says nothing"),
    "lowest_stationary": (
        "π_*, the lowest π_i",
        "deg/2m for 1/deg only without jumps; 1/n for metropolis only while nobody is alone",
    ),
    "tau_paper": ("τ(δ), the paper's bound", "ln(√2/(δπ_*)) / (1 − σ(P)); ∞ where σ(P) ≥ 1"),
    "tau_weighted": ("τ(δ), bound weighted by π", "ln(√(π^*/π_*)/(δπ_*)) / (1 − σ_π); where σ(P) ≥ 1, use this"),
    "tau_exact": ("τ(δ), exact", "every row of P^τ within δπ_* of π"),
    "tau_variation": ("moves to total variation δ", "the usual, weaker sense of mixing"),
    "spectral_limit": ("1 − 1/m^⅔", "the paper wants the “maximum eigenvalue”, which is always 1, below it"),
    "spectral_test": ("modulus < 1 − 1/m^⅔", "share of the snapshots that pass, with the second modulus"),
}


def as_text(found: Theory) -> str:
    """The report."""
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
            f"P(k) at {count} snapshot{'s' * (count > 1)}, each row over time:",
            as_markdown(_table(found.snapshots)),
        ]
        parts.append("\n".join(f"- {line}" for line in _walk_lines(found, found.walk)))
    parts += [
        "\n".join(f"- {line}" for line in _visit_lines(found)),
        "\n".join(f"- {line}" for line in _learning(found)),
    ]
    return "\n\n".join(parts) + "\n"


def _table(snapshots: pd.DataFrame) -> list[list[str]]:
    table = [["", "median", "lowest", "highest", "last", "to know"]]
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


def _walk_lines(found: Theory, walk: Whole) -> list[str]:
    phi, bounds = walk.products, walk.communication
    moves = len(phi.apart)
    rate = "it does not fall geometrically" if math.isnan(phi.rate) else f"by a factor {phi.rate:.4f} a move"
    holds = (
        "its conditions hold here"
        if walk.lemma_holds
        else "its conditions (doubly stochastic, P_ii > 0, the same clients, connected within Q) do not hold here"
    )
    lines = [
        f"Φ = P(1)…P({moves}): from the worst start the law of the next visit is {_number(phi.apart[-1])} away (total "
        f"variation) from that of a walk begun anywhere; {rate}"
        + (f" (jumps alone give {1 - found.jump:g})." if found.jump > 0 else "."),
        f"Largest |Φ_ij − 1/n|: {_number(phi.uneven[-1])}; the paper's lemma says at most {_number(walk.lemma[-1])} "
        f"(η = {_number(walk.smallest)}, Q = {_number(walk.window)}), and {holds}. Φ → 1/n only if P is doubly "
        "stochastic; otherwise its rows go to π, and where P(k) changes they agree but go on changing.",
        f"P_max: its rows sum to up to {_number(walk.most_row_sum)} (1 only where P never changes), σ(P_max) = "
        f"{_number(walk.max_sigma)} against {_number(found.snapshots['sigma'].max())}, the largest σ(P(k)). "
        "σ(P) ≤ σ(P_max), which the paper uses, does not hold in general.",
        f"Visits until ω = {found.omega:g}, orders without constants: {_number(bounds.walk)} by τ, "
        f"{_number(bounds.symmetric)} by the formula for P = Pᵀ (with the second modulus, not λ₂); Per-FedAvg "
        f"{_number(bounds.per_fedavg)}, APFL {_number(bounds.apfl)} rounds. As ω → 0, APFL's ω^(−3/4) is the "
        "lowest order of them, whatever n is.",
        f"Cover time: {_estimate(walk)} moves along these P(k)"
        + ("" if math.isnan(walk.matthews[0]) else f"; on the last graph Matthews' bounds {_range(walk.matthews)}")
        + ".",
    ]
    if walk.chance is not None:
        c = walk.chance
        verdict = "as the theory says" if c.p >= 0.01 else "hardly by chance: the vehicle did not walk by these P(k)"
        lines.append(
            f"Visits against π: total variation {c.distance:.3f}; walks drawn from the same P(k) have {c.low:.3f} to "
            f"{c.high:.3f} (95 %), mean {c.expected:.3f}; p = {c.p:.3f}: {verdict}. (Graphs may change between "
            "snapshots, and clients chased in vain are not visited: log.graph_every = 1 makes it exact but for those.)"
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
        f"Visits since the last one, at the end: mean {clients['age_visits'].mean():.1f}, oldest "
        f"{oldest['age_visits']:.0f} (client {oldest['client']:.0f}, {oldest['age_s']:.0f} s).",
    ]


def _learning(found: Theory) -> list[str]:
    if found.smoothness is None:
        known = "L is not known: a run of rwsadmm with logistic regression logs it; networks have no such bound."
        return [f"β > 2L² + L + 2: {known}"]
    least = least_beta(found.smoothness)
    meets = found.beta is not None and found.beta > least
    return [
        f"L = {found.smoothness:.4g}, so the proof asks for β > 2L² + L + 2 = {least:.4g}; β = {found.beta:g} "
        f"{'meets' if meets else 'does not meet'} it. It is not enforced: at β that large learning is too slow to use.",
        "The theorem's limit x_i* = y* is consensus: with eps > 0, which personal models need, it says nothing.",
    ]


def _estimate(walk: Whole) -> str:
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
