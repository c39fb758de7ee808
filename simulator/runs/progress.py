"""What a person sees during a run, and at its end."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, NoReturn, TextIO

if TYPE_CHECKING:
    from tqdm import tqdm

    from fedmule.simulator.ledger import Ledger
    from fedmule.simulator.runs.columns import Summary

LINE_EVERY_S = 5.0


class Silent:
    """Shows nothing."""

    def __call__(self, ledger: Ledger) -> None: ...

    def close(self) -> None:
        """End the display."""


class Bar(Silent):
    """A progress bar on a terminal."""

    def __init__(self, visits: int | None) -> None:
        from tqdm import tqdm

        self._bar = tqdm(total=visits, unit=" visits", dynamic_ncols=True, mininterval=0.2, file=sys.stderr)

    def __call__(self, ledger: Ledger) -> None:
        self._bar.set_postfix_str(_status(ledger), refresh=False)
        self._bar.update(ledger.visits - self._bar.n)

    def close(self) -> None:
        self._bar.close()


class Lines(Silent):
    """A plain line now and then, where there is no terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next_s = time.monotonic() + LINE_EVERY_S

    def __call__(self, ledger: Ledger) -> None:
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + LINE_EVERY_S
            share = ledger.progress(ledger.now)
            self._stream.write(f"{share:4.0%}  {ledger.visits} visits, {_status(ledger)}\n")
            self._stream.flush()


class Downloads:
    """A bar per file on a terminal, a line per file elsewhere."""

    def __init__(self) -> None:
        self._what = ""
        self._bar: tqdm[NoReturn] | None = None

    def __enter__(self) -> Downloads:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def __call__(self, what: str, done: int, total: int | None) -> None:
        if what != self._what:
            self.__exit__()
            self._what = what
            if sys.stderr.isatty():
                from tqdm import tqdm

                self._bar = tqdm(total=total, unit="B", unit_scale=True, desc=what, file=sys.stderr)
            else:
                sys.stderr.write(f"{what}: {megabytes(total) if total else 'size unknown'}\n")
        if self._bar is not None:
            self._bar.update(done - self._bar.n)


class ShareDone:
    """The share of the work that is done: on a terminal updated in place, elsewhere a line now and then."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._on_terminal = sys.stderr.isatty()
        self._next_s = time.monotonic() + (0.2 if self._on_terminal else LINE_EVERY_S)
        self._shown = False

    def __call__(self, share: float) -> None:
        now, is_last = time.monotonic(), self._shown and share == 1
        if now < self._next_s and not is_last:
            return
        self._next_s = now + (0.2 if self._on_terminal else LINE_EVERY_S)
        self._shown = True
        begin, end = ("\r", "\n" if share == 1 else "") if self._on_terminal else ("", "\n")
        sys.stderr.write(f"{begin}{self._what}: {share:.0%}{end}")
        sys.stderr.flush()


class NoPoints:
    """Shows nothing about a batch."""

    def __call__(self, failed: int) -> None: ...

    def close(self) -> None:
        """End the display."""


class PointsBar(NoPoints):
    """The points of a batch that are done, and the time left, on a terminal."""

    def __init__(self, total: int, before: int) -> None:
        from tqdm import tqdm

        self._bar = tqdm(total=total, initial=before, unit=" runs", dynamic_ncols=True, file=sys.stderr)

    def __call__(self, failed: int) -> None:
        if failed:
            self._bar.set_postfix_str(f"{failed} failed", refresh=False)
        self._bar.update()

    def close(self) -> None:
        self._bar.close()


class PointsLines(NoPoints):
    """The same as plain lines now and then."""

    def __init__(self, total: int, before: int) -> None:
        self._total, self._before, self._done = total, before, before
        self._began = time.monotonic()
        self._next_s = self._began
        sys.stderr.write(f"{total} runs, {before} of them done before\n")

    def __call__(self, failed: int) -> None:
        self._done += 1
        now, left = time.monotonic(), self._total - self._done
        if now >= self._next_s or not left:
            self._next_s = now + LINE_EVERY_S
            each_s = (now - self._began) / (self._done - self._before)
            failures = f", {failed} failed" if failed else ""
            sys.stderr.write(f"{self._done} of {self._total} runs{failures}, about {clock(left * each_s)} left\n")
            sys.stderr.flush()


def points_progress(quiet: bool, total: int, before: int) -> NoPoints:
    """Progress of a batch of `total` points, `before` of them done already."""
    if quiet:
        return NoPoints()
    return (PointsBar if _shows_bars() else PointsLines)(total, before)


def progress_for(quiet: bool, visits: int | None) -> Silent:
    """A bar on a terminal and in a notebook, plain lines elsewhere."""
    if quiet:
        return Silent()
    return Bar(visits) if _shows_bars() else Lines(sys.stderr)


def _shows_bars() -> bool:
    return sys.stderr.isatty() or _in_notebook()


def _in_notebook() -> bool:
    """Whether this is the kernel of a notebook, and not a program that has only imported one."""
    if "ipykernel" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    return type(get_ipython()).__name__ == "ZMQInteractiveShell"


def _status(ledger: Ledger) -> str:
    size = megabytes(ledger.bytes_down + ledger.bytes_up)
    return f"{clock(ledger.now)} simulated, accuracy {ledger.accuracy:.1%}, {size}"


def clock(seconds: float) -> str:
    """Seconds as hours, minutes and seconds."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02d}:{s:02d}"


def lasting(seconds: float) -> str:
    """As `clock`, but short times to the tenth of a second."""
    return clock(seconds) if seconds >= 60 else f"{seconds:.1f} s"


def megabytes(count: int) -> str:
    """Format bytes as kB or MB."""
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"


def kilometres(metres: float) -> str:
    """Format metres as m or km."""
    return f"{metres / 1e3:,.1f} km" if metres >= 1e3 else f"{metres:.0f} m"


def gigaflops(count: float) -> str:
    """Format floating-point operations as kFLOP, MFLOP or GFLOP."""
    unit, size = next(((u, s) for u, s in (("GFLOP", 1e9), ("MFLOP", 1e6)) if count >= 0.1 * s), ("kFLOP", 1e3))
    return f"{count / size:.3g} {unit}"


WHY = {  # by StopReason
    "visits": "the number of visits was reached",
    "sim_time_s": "the simulated time was up",
    "total_bytes": "the bytes were used up",
    "nothing_sent": "nothing more was sent before the bytes were used up",
    "accuracy": "the target accuracy was reached",
    "interrupted": "it was interrupted (the same command with --resume resumes it)",
    "diverged": "the models diverged",
    "nobody_reached": "the vehicle could not reach any client any more",
}


def _meetings_line(summary: Summary) -> str:
    return (
        f"  met      vehicles {summary['meetings']} times, {summary['meetings_delivered']} of them got through; "
        f"{megabytes(summary['bytes_between'])} to each other"
    )


def _why(summary: Summary) -> str:
    """Why the run ended."""
    why, divergence = summary["stopped_by"], summary["divergence"]
    said = WHY[why] if why else "it ended"
    return f"{said} {divergence}" if divergence else said


def _time_line(summary: Summary) -> list[str]:
    """Where the vehicles' time went."""
    metres = summary["driven_m"]
    if metres is None:
        return []
    driven, visits, setup, air, stood = (
        clock(summary[key] or 0.0) for key in ("driven_s", "visits_s", "visits_setup_s", "visits_airtime_s", "stood_s")
    )
    return [
        f"  time     driving {kilometres(metres)} {driven}, visits {visits} (setting up links {setup}, on the air "
        f"{air}), standing between them {stood}"
    ]


def _notes(summary: Summary) -> list[str]:
    """What a user should know about a run that went differently than hoped."""
    if not summary["contacts"]:
        return ["nobody was ever in range: a longer range, more time or another walk may help"]
    if not summary["delivered"]:
        return ["nothing got through, every exchange broke off: a longer range or a smaller payload may help"]
    if not summary["gradient_steps"]:
        return [f"nobody took a gradient step: {summary['algorithm']} has only handed models on"]
    never = summary["clients"] - summary["clients_reached"]
    they = (
        "1 client never completed an exchange and ends"
        if never == 1
        else f"{never} clients never completed an exchange and end"
    )
    has_own = summary["clients_alone"] is not None
    return [f"{they} with the model {'trained alone' if has_own else 'of the start'}"] if never else []


def _payload_line(summary: Summary) -> str:
    """Say that a stand-in was trained, and what it stands in for."""
    flops, trained = summary["payload_flops_per_sample"], summary["trained_bytes"]
    computing = f" and {gigaflops(flops)} a sample" if flops is not None else ""
    return (
        f"  payload  {megabytes(summary['payload_bytes'])}{computing}; a model of {megabytes(trained)} stood in for it"
    )


def _own_labels(summary: Summary) -> str:
    """Say how many clients know better than the token how often they have each label."""
    count = summary["clients_own_labels"]
    return f", to which {count} clients added their own label frequencies" if count else ""


def summary_text(summary: Summary, folder: str, hints: bool = True) -> str:
    """What was learnt, at what cost, where the results are, with `hints` what to do next, and the verdict."""
    sent = summary["bytes_down"] + summary["bytes_up"] + summary["bytes_between"]
    token = summary["token_test_acc"]
    delivered = summary["delivered"] / summary["active"] if summary["active"] else 0.0
    stand_in = summary["payload_bytes"] != summary["trained_bytes"] or summary["payload_flops_per_sample"] is not None
    lines = [
        f"{summary['name']}: {summary['visits']} visits in {clock(summary['sim_time_s'])} of simulated time "
        f"({summary['host_time_s']:.1f} s here); {_why(summary)}",
        f"  learnt   personal models {summary['personal_test_acc_mean']:.1%} of test samples right, mean over "
        f"clients (at the start {summary['start_personal_test_acc_mean']:.1%}); token "
        + ("unknown" if token is None else f"{token:.1%}")
        + ("" if summary["prior"] is None else "; each with a prior of the client's own labels")
        + _own_labels(summary),
        f"  cost     {megabytes(sent)} on the air in {lasting(summary['airtime_s'])}, {summary['gradient_steps']} "
        "gradient steps",
        *_time_line(summary),
        *([_payload_line(summary)] if stand_in else []),
        f"  reached  {summary['clients_reached']} of {summary['clients']} clients; {delivered:.1%} of "
        f"{summary['active']} exchanges got through"
        + (f"; {summary['missed']} times a client was not reached" if summary["missed"] else ""),
        *([_meetings_line(summary)] if summary["meetings"] else []),
        *(f"  note     {note}" for note in _notes(summary)),
        f"  results  {folder}",
        *(
            [f"           fedmule replay {folder} plays it on its map, fedmule report {folder} draws it"]
            if hints
            else []
        ),
        *([f"  verdict  {summary['verdict']}"] if summary.get("verdict") else []),
    ]
    return "\n".join(lines)
