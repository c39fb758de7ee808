"""The report of a run: the figures that apply, and why others do not."""

from __future__ import annotations

from typing import Any

from fedmule.analysis.loading import Run, has_positions, movement_in_words
from fedmule.analysis.measures import ALONE, on_the_air
from fedmule.analysis.plots import (
    draw_ages,
    draw_convergence,
    draw_costs,
    draw_graph,
    draw_map,
    draw_theory,
    draw_visits,
)
from fedmule.analysis.plots.convergence import has_constraint
from fedmule.analysis.report.content import Content, Item
from fedmule.analysis.report.run_in_words import end_s, last, percent, run_findings, start_accuracy
from fedmule.analysis.result_tables import Table
from fedmule.simulator.runs.columns import QUANTITIES
from fedmule.simulator.runs.progress import clock, lasting, megabytes

MOST_IN_THEORY = 400  # clients; more would take minutes


def run_content(run: Run) -> Content:
    """Figures that apply to a run, finished or not, and what is missing."""
    content = Content(f"Run {run.scenario['name']}", _facts(run), run_findings(run))
    if not len(run.contacts):
        content.missing.append("Accuracy, visits, ages and theory: no client has been visited.")
    _learning(run, content)
    if run.scenario["learning"]["server"] == "vehicle":
        _driving(run, content)
    else:
        content.missing.append(
            'Map, visits and theory: learning.server = "star" is an ideal server that reaches clients wherever they '
            "are; nothing drives."
        )
    return content


def _learning(run: Run, content: Content) -> None:
    if not len(run.contacts):
        return
    content.items.append(
        Item(
            "accuracy",
            "Accuracy and its cost",
            "Test accuracy of the models that clients hold (personal), of the shared model (token) and of the models "
            "that clients would have without any vehicle (training alone), mean over clients, against simulated time, "
            "host time, visits and bytes on the air.",
            lambda: draw_costs(run),
        )
    )
    if not run.contacts["delivered"].sum():
        content.missing.append("Convergence: no exchange got through.")
    elif has_constraint(run):
        content.items.append(
            Item(
                "convergence",
                "Does the algorithm converge?",
                "How far models are outside their tube around the token, the Lagrangian (and the Lyapunov function "
                "where the losses' smoothness is known), how far the token moves at a contact, and the size of "
                "the duals; all should settle.",
                lambda: draw_convergence(run),
            )
        )
    else:
        algorithm = _kind(run.scenario["learning"]["algorithm"])
        content.missing.append(f"Convergence: {algorithm} logs no constraint between personal models and token.")


def _driving(run: Run, content: Content) -> None:
    if has_positions(run.scenario):
        _map(run, content)
    else:
        content.missing.append("Map: the contact list has no positions.")
    if run.graph.empty:
        content.missing.append(
            "Contact graph and theory of the walk: no graph was logged (log.graph_every = 0, or larger than the number "
            "of visits)."
        )
    else:
        layout = "" if not run.track.empty else " No track was logged: positions are chosen to show the links."
        content.items.append(
            Item(
                "graph",
                "Who could hear whom",
                f"The contact graph at its last snapshot: the vehicle's next target is drawn along such links.{layout}",
                lambda: draw_graph(run),
            )
        )
    if len(run.contacts):
        items = [
            Item(
                "visits",
                "Visits per client",
                "How often a vehicle came to each client, and how many exchanges the client completed, at its own "
                "visits, at its neighbours' and in passing.",
                lambda: draw_visits(run),
            ),
            Item(
                "ages",
                "Time since each client's last visit",
                "A row per client: dark just after a visit, bright long after the last one, grey before the first.",
                lambda: draw_ages(run),
            ),
        ]
        content.items.extend(items)
        _theory(run, content)


def _map(run: Run, content: Content) -> None:
    if run.track.empty:
        content.missing.append("Paths on the map: no track was logged (log.track = false, or the run has just begun).")
    content.items.insert(
        0,
        Item(
            "map",
            "Where it happened",
            "Terrain, the paths of vehicles and clients, where contacts took place, and where clients were at the end. "
            "Grey areas stop movement and weaken radio, blue ones stop movement only, dotted ones weaken radio only.",
            lambda: draw_map(run),
        ),
    )


def _theory(run: Run, content: Content) -> None:
    count = int(run.scenario["clients"]["count"])
    if count > MOST_IN_THEORY:
        content.missing.append(f"Theory of the walk: with {count} clients it takes minutes; call draw_theory(run).")
    elif not run.graph.empty:
        content.items.append(
            Item(
                "theory",
                "The walk and the theory",
                "How fast the walk forgets its start, at each snapshot and over the entire run, visits against the "
                "stationary distribution, and how stale clients become; docs/theory.md explains every quantity.",
                lambda: draw_theory(run),
            )
        )


def _facts(run: Run) -> Table:
    """A line per fact, from the tables, so that runs without a summary have them too."""
    scenario, contacts = run.scenario, run.contacts
    learning, count = scenario["learning"], int(scenario["clients"]["count"])
    sent = int(on_the_air(contacts).sum())
    asked, completed = int(contacts["active"].sum()), int(contacts["delivered"].sum())
    start = start_accuracy(run)
    personal, vehicles = last(contacts["personal_test_acc_mean"], start), contacts["vehicle"].nunique()
    label = {name: column.words for name, column in QUANTITIES.items()}
    return [
        ["", "value"],
        ["algorithm, data, model", ", ".join(_kind(learning[key]) for key in ("algorithm", "dataset", "model"))],
        ["radio, movement", f"{_kind(scenario['radio'])}, {movement_in_words(scenario)}"],
        ["seed", str(scenario["seed"])],
        ["clients", f"{count}, {run.visits['client'].nunique()} of them visited"],
        ["visits", f"{len(run.visits)}" + (f" by {vehicles} vehicles" if vehicles > 1 else "")],
        ["contacts in passing", str(len(contacts) - len(run.visits))],
        [label["sim_time_s"], clock(end_s(run))],
        [label["host_time_s"], f"{last(contacts['host_time_s'], 0.0):.1f} s"],
        [label["personal_test_acc_mean"], f"{percent(personal)}, {percent(start)} at the start"],
        [label["token_test_acc"], percent(last(contacts["token_test_acc"], float("nan")))],
        *_alone(run, label[ALONE]),
        [label["bytes"], f"{megabytes(sent)} in {lasting(contacts['airtime_s'].sum())}"],
        [label["delivered_share"], f"{completed} of {asked}"],
        [label["gradient_steps"], str(int(contacts["gradient_steps"].sum()))],
    ]


def _alone(run: Run, label: str) -> Table:
    """The line on training alone; none if nobody trained alone."""
    if ALONE not in run.contacts or run.contacts[ALONE].isna().all():
        return []
    trained = int(run.clients.groupby("contact")["alone_test_acc"].count().max())
    count = run.clients["client"].nunique()
    sample = f", in a sample of {trained} of {count} clients" if trained < count else ""
    return [[label, percent(last(run.contacts[ALONE], float("nan"))) + sample]]


def _kind(part: Any) -> str:
    return str(part["kind"] if isinstance(part, dict) else part)
