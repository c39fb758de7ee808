"""Figures of runs and studies; docs/analysis.md shows each of them.

Each function takes the data to draw and optionally your own axes. It returns a matplotlib Figure, which a notebook
displays and `savefig` writes to a file.
"""

from fedmule.analysis.plots.convergence import draw_convergence
from fedmule.analysis.plots.curves import draw_accuracy, draw_costs, draw_curves
from fedmule.analysis.plots.heat import draw_heat
from fedmule.analysis.plots.maps import draw_graph, draw_map
from fedmule.analysis.plots.run_overview import draw_run
from fedmule.analysis.plots.search import draw_search
from fedmule.analysis.plots.studies import draw_comparison, draw_effect
from fedmule.analysis.plots.theory import draw_theory
from fedmule.analysis.plots.visits import draw_ages, draw_visits

__all__ = [
    "draw_accuracy",
    "draw_ages",
    "draw_comparison",
    "draw_convergence",
    "draw_costs",
    "draw_curves",
    "draw_effect",
    "draw_graph",
    "draw_heat",
    "draw_map",
    "draw_run",
    "draw_search",
    "draw_theory",
    "draw_visits",
]
