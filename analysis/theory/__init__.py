"""The theory of the vehicle's walk, for a run or for any transition matrix. docs/theory.md explains every quantity."""

from fedmule.analysis.theory.chain import Chain, CommunicatingClass, contraction
from fedmule.analysis.theory.findings import Theory, theory
from fedmule.analysis.theory.formulas import Communication, communication, least_beta, spectral_limit
from fedmule.analysis.theory.mixing import (
    Products,
    lemma_bound,
    mixing_time,
    paper_bound,
    products,
    variation_time,
    weighted_bound,
)
from fedmule.analysis.theory.report import as_text
from fedmule.analysis.theory.walks import Estimate, Law, cover_time, hitting_times, matthews

__all__ = [
    "Chain",
    "CommunicatingClass",
    "Communication",
    "Estimate",
    "Law",
    "Products",
    "Theory",
    "as_text",
    "communication",
    "contraction",
    "cover_time",
    "hitting_times",
    "least_beta",
    "lemma_bound",
    "matthews",
    "mixing_time",
    "paper_bound",
    "products",
    "spectral_limit",
    "theory",
    "variation_time",
    "weighted_bound",
]
