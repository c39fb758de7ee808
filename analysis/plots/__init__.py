"""Pictures of runs and studies: each function takes what it draws, and axes of yours if you like; docs/analysis.md.

They return a matplotlib Figure, which a notebook shows and `savefig` writes.
"""

from fedmule.analysis.plots.convergence import draw_convergence
from fedmule.analysis.plots.curves import draw_accuracy, draw_costs, draw_curves
from fedmule.analysis.plots.maps import draw_graph, draw_map
from fedmule.analysis.plots.runs import draw_run
from fedmule.analysis.plots.studies import draw_comparison, draw_effect, draw_heat
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
    "draw_theory",
    "draw_visits",
]
