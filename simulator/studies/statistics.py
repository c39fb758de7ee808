"""What can be said of a mean over few seeds: its interval, and whether a difference is more than chance."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

LEVEL = 0.05  # of significance; intervals are of 95 %
FEW = 3  # seeds: with as many or fewer only large differences show


def interval(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and half-width of the 95 % interval by Student's t: t·s/√n with n − 1 degrees; None for one value."""
    from scipy.special import stdtrit

    n = len(values)
    if n < 2:
        return float(np.mean(values)), None
    return float(np.mean(values)), float(stdtrit(n - 1, 1 - LEVEL / 2) * np.std(values, ddof=1) / math.sqrt(n))


def paired_p(differences: Sequence[float]) -> float:
    """The p-value of Student's two-sided t test that the mean difference is 0; two differences or more."""
    from scipy.special import stdtr

    n, mean, spread = len(differences), float(np.mean(differences)), float(np.std(differences, ddof=1))
    if spread == 0:
        return 1.0 if mean == 0 else 0.0
    return float(2 * stdtr(n - 1, -abs(mean) / (spread / math.sqrt(n))))


def holm(p_values: Sequence[float]) -> list[bool]:
    """Which of several tests are significant, with Holm's correction: any false claim has a probability below 5 %."""
    found = [False] * len(p_values)
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        if p_values[i] * (len(p_values) - rank) > LEVEL:
            break
        found[i] = True
    return found
