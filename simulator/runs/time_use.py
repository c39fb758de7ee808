"""Where the CPU time of a run goes, for `fedmule run --profile`: calls of the parts of the program are timed."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from numba.core.dispatcher import Dispatcher

from fedmule.learning.learner import Learner
from fedmule.mobility.driving import Driving
from fedmule.mobility.positions import Positions
from fedmule.mobility.trajectory import Trajectories
from fedmule.radio.channel import Channel
from fedmule.radio.encounters import ByPosition
from fedmule.radio.hearing import Hearing
from fedmule.radio.listed import ByList
from fedmule.simulator import meetings, serving
from fedmule.simulator.meetings import Meetings
from fedmule.simulator.runs.checkpoint import Checkpoints
from fedmule.simulator.runs.folder import RunLog, write_json
from fedmule.simulator.vehicle import Vehicle
from fedmule.simulator.world_state import Snapshots

FILE = "profile.json"
LINKS = "link first_heard hears around passed"
START, LOOP, COMPILING = "start-up", "event loop", "compiling"
MEANING = {
    START: "imports, data, building the world and the models",
    COMPILING: "compiled loops: compiling them once after installation, then loading them",
    "choice": "vehicles choose the client that they visit next",
    "routes": "ways of vehicles",
    "movement": "ways and positions of clients, and their reports",
    "links": "who hears whom and when, and exchanges over these links",
    "meetings": "vehicles that come into each other's range",
    "training": "steps of clients, and what becomes of their results",
    "evaluation": "accuracies, and training alone",
    "log": "tables, models and summary",
    "checkpoint": "copies of the state for --resume",
    LOOP: "the rest: events, and what lies between the parts",
}
# Which calls belong to a part. What a call of another part takes inside them is not theirs.
PARTS: tuple[tuple[str, Any, str], ...] = (
    (COMPILING, Dispatcher, "compile"),
    ("choice", Vehicle, "choose"),
    ("routes", Driving, "way"),
    ("movement", Positions, "advance after_visit known_within count_reports"),
    ("movement", Trajectories, "positions positions_at path boxes finish"),
    ("links", ByPosition, LINKS),
    ("links", ByList, LINKS),
    ("links", Hearing, "heard first_heard link expected_link"),
    ("links", Channel, "join relink advance"),
    ("links", serving, "run_exchange"),
    ("meetings", Meetings, "find"),
    ("meetings", meetings, "run_exchange"),
    ("training", Learner, "cost begin shorten update drop meet introduce move"),
    ("evaluation", Learner, "refresh overview token_accuracy alone_accuracy"),
    ("log", RunLog, "client_track vehicle_track contact meeting clients graph learnt close"),
    ("checkpoint", Checkpoints, "after_contact"),
    ("checkpoint", Snapshots, "after_event"),
)


class TimeUse:
    """Seconds of CPU by part, of which each is charged to the innermost call; `total_s` is their sum."""

    def __init__(self, since_s: float = 0.0) -> None:
        self.spent_s = dict.fromkeys(MEANING, 0.0)
        self._inside = [START]
        self._since_s = since_s  # of CPU, since the process began

    def _change(self) -> None:
        now_s = time.process_time()
        self.spent_s[self._inside[-1]] += now_s - self._since_s
        self._since_s = now_s

    def _timed(self, call: Callable[..., Any], part: str) -> Callable[..., Any]:
        @functools.wraps(call)
        def timed(*arguments: Any, **named: Any) -> Any:
            self._change()
            self._inside.append(part)
            try:
                return call(*arguments, **named)
            finally:
                self._change()
                self._inside.pop()

        return timed

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Time calls of the parts meanwhile; all else is start-up."""
        with ExitStack() as stack:
            for part, owner, names in PARTS:
                for name in names.split():
                    call = getattr(owner, name)
                    stack.callback(setattr, owner, name, call)
                    setattr(owner, name, self._timed(call, part))
            try:
                yield
            finally:
                self._change()

    def started(self) -> None:
        """The start-up is over: from now on what belongs to no part is the event loop."""
        self._change()
        self._inside[0] = LOOP

    @property
    def total_s(self) -> float:
        """Seconds of CPU of all parts."""
        return sum(self.spent_s.values())

    def table(self) -> str:
        """Return the parts as lines for people, the largest first."""
        lines = [f"{self.total_s:9.2f} s of CPU"]
        for part, seconds in sorted(self.spent_s.items(), key=lambda each: -each[1]):
            lines.append(f"{seconds:9.2f} s {seconds / max(self.total_s, 1e-9):5.0%}  {part:<11} {MEANING[part]}")
        return "\n".join(lines) + "\n"

    def write(self, folder: Path) -> None:
        """Write the seconds of all parts into a run folder."""
        seconds = {f"{part.replace(' ', '_').replace('-', '_')}_s": spent_s for part, spent_s in self.spent_s.items()}
        write_json(folder / FILE, {"cpu_s": self.total_s, **seconds})
