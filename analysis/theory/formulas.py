"""Conditions and bounds of the paper that are a single formula each."""

from __future__ import annotations

import math
from dataclasses import dataclass


def spectral_limit(edges: int) -> float:
    """Limit below which the paper asks the second-largest modulus to be: 1 − 1/m^(2/3) for m edges; nan without."""
    return 1 - edges ** (-2 / 3) if edges else math.nan


def least_beta(smoothness: float) -> float:
    """Value that β must exceed for the paper's proof of convergence: 2L² + L + 2."""
    return 2 * smoothness**2 + smoothness + 2


@dataclass(frozen=True)
class Communication:
    """Order of the number of visits or rounds until the squared gradient is below ω; constants are left out."""

    walk: float  # (1/ω) (τ² + 1) / ((1 − δ) n π_*)
    symmetric: float  # (1/ω) ln²n / (1 − modulus)²; where P = Pᵀ, so that π = 1/n
    per_fedavg: float  # ω^(−3/2)
    apfl: float  # n^(3/4) ω^(−3/4)


def communication(n: int, tau: float, lowest: float, modulus: float, omega: float, delta: float = 0.5) -> Communication:
    """Compare the bounds; ∞ for a walk that never mixes."""
    mixes = math.isfinite(tau) and lowest > 0
    return Communication(
        walk=(tau**2 + 1) / ((1 - delta) * n * lowest) / omega if mixes else math.inf,
        symmetric=math.log(n) ** 2 / (1 - modulus) ** 2 / omega if modulus < 1 else math.inf,
        per_fedavg=omega**-1.5,
        apfl=n**0.75 * omega**-0.75,
    )
