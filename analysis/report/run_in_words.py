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
    found = [_worth(run), *_learnt(run), ONE_SEED if len(run.contacts) else "", ending(run)]
    return [sentence for sentence in found if sentence]


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


def _worth(run: Run) -> str:
    """The verdict; of a run without a summary the difference to training alone, without an interval."""
    if not len(run.contacts):
        return "Nothing was learnt from others: no client has been visited."
    if run.summary.get("verdict"):
        return str(run.summary["verdict"])
    if ALONE not in run.contacts or run.contacts[[PERSONAL, ALONE]].dropna().empty:
        return ""
    at = run.contacts[[PERSONAL, ALONE]].dropna().iloc[-1]
    gain = f"{100 * (at[PERSONAL] - at[ALONE]):+.1f}".replace("-", "−")
    return f"Carrying a model: {gain} points against training alone so far."


def _learnt(run: Run) -> list[str]:
    contacts = run.contacts
    if not len(contacts):
        return []
    asked, completed = int(contacts["active"].sum()), int(contacts["delivered"].sum())
    start = start_accuracy(run)
    known = contacts[PERSONAL].notna().any()
    learnt = (
        f"Personal models are right on {percent(last(contacts[PERSONAL], start))} of test samples, mean over clients, "
        f"{percent(start)} at the start"
        if known
        else "Accuracy was not evaluated"
    )
    reached = f"{len(run.visits):,} visits in {clock(last(contacts['sim_time_s'], 0.0))} of simulated time"
    delivered = f"{completed:,} of {asked:,} exchanges got through" if completed else "no exchange got through"
    found = [f"{learnt}; {reached}; {delivered}."]
    if asked and not completed:
        found.insert(0, "No exchange got through: whatever was learnt, clients learnt alone.")
    return found
