"""What came out of a run, in sentences, from its tables: runs under way have no summary."""

from __future__ import annotations

from typing import Any

from fedmule.analysis.loading import Run
from fedmule.analysis.measures import ALONE, PERSONAL
from fedmule.simulator.runs.progress import WHY, clock

ONE_SEED = (
    "This is one run with one seed: intervals are over its clients, and other seeds may come out differently. Run "
    "several with fedmule study SCENARIO --seeds 5."
)


def run_findings(run: Run) -> list[str]:
    """Return whether the vehicle was worth it, what was learnt, how sure that is, and why the run ended."""
    if not len(run.contacts):
        return ["Nothing was learnt from others: no client has been visited.", ending(run)]
    found = [_nothing_delivered(run), _worth(run), _learnt(run), ONE_SEED]
    diverged = run.summary.get("stopped_by") == "diverged"
    return [sentence for sentence in ([ending(run), *found] if diverged else [*found, ending(run)]) if sentence]


def ending(run: Run) -> str:
    """Why it ended, or that it has not."""
    why = run.summary.get("stopped_by") or run.manifest.get("stopped_by")
    if run.finished or why:
        return f"It ended because {WHY.get(str(why), str(why))}."
    return "It has not ended: it is under way, or was killed. The report covers what was logged so far."


def last(column: Any, otherwise: float) -> float:
    """The last known value of a column."""
    known = column.dropna()
    return float(known.iloc[-1]) if len(known) else otherwise


def percent(share: float) -> str:
    """A share in words."""
    return "not known" if share != share else f"{100 * share:.1f} %"


def start_accuracy(run: Run) -> float:
    """Mean personal accuracy before the first contact."""
    return float(run.clients[run.clients["contact"] == 0]["test_acc"].mean())


def end_s(run: Run) -> float:
    """Simulated time at its end, or at its last contact so far."""
    return float(run.summary.get("sim_time_s") or last(run.contacts["sim_time_s"], 0.0))


def _worth(run: Run) -> str:
    """The verdict; of a run without a summary the difference to training alone, without an interval."""
    if run.summary.get("verdict"):
        return str(run.summary["verdict"])
    if ALONE not in run.contacts or run.contacts[[PERSONAL, ALONE]].dropna().empty:
        return ""
    at = run.contacts[[PERSONAL, ALONE]].dropna().iloc[-1]
    gain = f"{100 * (at[PERSONAL] - at[ALONE]):+.1f}".replace("-", "−")
    return f"Carrying a model: {gain} points against training alone so far."


def _nothing_delivered(run: Run) -> str:
    """A warning that no exchange was completed; empty if any was."""
    if run.contacts["delivered"].sum() or not run.contacts["active"].sum():
        return ""
    return "No exchange got through: whatever was learnt, clients learnt alone."


def _learnt(run: Run) -> str:
    """Accuracy, visits and exchanges."""
    contacts, start, visits = run.contacts, start_accuracy(run), len(run.visits)
    known = contacts[PERSONAL].notna().any()
    learnt = (
        f"Personal models are right on {percent(last(contacts[PERSONAL], start))} of test samples, mean over clients, "
        f"{percent(start)} at the start"
        if known
        else "Accuracy was not evaluated"
    )
    through = f"{int(contacts['delivered'].sum()):,} of {int(contacts['active'].sum()):,} exchanges got through"
    return f"{learnt}; {visits:,} visit{'s' * (visits != 1)} in {clock(end_s(run))} of simulated time; {through}."
