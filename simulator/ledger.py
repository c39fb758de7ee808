"""What has happened so far: visits, costs, accuracy; and whether the run is over."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmule.learning.algorithms.base import Contact, Exchange, Update
from fedmule.radio.exchange import Outcome
from fedmule.simulator.build import Learner
from fedmule.simulator.meetings import Meeting
from fedmule.simulator.runs.folder import NoLog
from fedmule.simulator.scenario import Scenario

IntArray = NDArray[np.int64]

# Columns of contacts whose last value goes into the summary.
LAST_VALUES = (
    "personal_validation_acc_mean",
    "token_test_acc",
    "train_loss",
    "violation_max",
    "violation_rms",
    "violated_share",
    "dual_norm",
    "lagrangian",
    "lyapunov",
    "token_step_norm",
    "kappa",
)


@dataclass(frozen=True)
class Visit:
    """One visit, as the engine saw it."""

    contact: Contact
    active: IntArray
    exchange: Exchange
    outcome: Outcome
    update: Update | None  # None: nobody was delivered
    began_s: float
    vehicle: int | None = None  # None for an ideal server
    position: NDArray[np.float64] | None = None  # [2] of the vehicle


class Ledger:
    """Counts and totals of a run; writes them to the log."""

    def __init__(self, scenario: Scenario, learner: Learner) -> None:
        n = scenario.clients.count
        self._stop = scenario.stop
        self._evaluate_every = scenario.learning.evaluate_every
        self._evaluate_contacts = scenario.learning.evaluate_contacts
        self._evaluator = learner.evaluator
        self._participations = learner.algorithm.participations
        self._beta = learner.algorithm.beta
        self._log = NoLog()
        self._began = time.perf_counter()
        self.scenario = scenario
        self.rehearses = False  # only counts; nothing is looked at or logged
        self.stopped_by: str | None = None
        self.visits = self.missed = self._missed_in_a_row = self.meetings = self.meetings_delivered = 0
        self._missed_since: Counter[int] = Counter()  # by each vehicle, since its last contact
        self._last_end_s: dict[int, float] = {}  # of each vehicle's last contact
        self.visits_to = np.zeros(n, dtype=np.int64)
        self.gradient_steps = np.zeros(n, dtype=np.int64)
        self.received, self.sent = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        self.bytes_down = self.bytes_up = self.bytes_between = self.active = self.delivered = 0
        self._between_reported = 0
        self._bytes_spent = 0  # of the budget: uncharged ones too, so that training alone ends when its reference does
        self._silent_visits = 0  # since the last byte was on the air
        self.travel_s = self.airtime_s = self.now = 0.0
        self.start_acc = self.accuracy
        self._diverged = False
        self._evaluated_at = -1  # the visit after which all clients were looked at last
        self._late: IntArray | None = None  # those who joined late
        self._late_token_acc: float | None = None  # what the token was worth to them when they joined
        self._last: dict[str, Any] = {}  # the last value of each column of LAST_VALUES

    def begin(self, log: NoLog) -> None:
        """The run starts now: log how everyone stands before the first visit."""
        self._log = log
        self._began = time.perf_counter()
        if not self.rehearses:
            self._remember(self.evaluate())

    def take_up(self, host_time_s: float) -> None:
        """Everything was put back as it was after so many host seconds: go on from there."""
        self._began = time.perf_counter() - host_time_s
        self.stopped_by = None

    def surroundings(self) -> list[Any]:
        """What it refers to that is not its own."""
        return [self.scenario, self._stop, self._log]

    @property
    def host_time_s(self) -> float:
        """Since the run began."""
        return time.perf_counter() - self._began

    @property
    def accuracy(self) -> float:
        return self._evaluator.test.mean

    def progress(self, now: float) -> float:
        """The share of the run's budget that is used up, by whichever limit is nearest."""
        used = [(self.visits, self._stop.visits), (now, self._stop.sim_time_s)]
        used += [(self._bytes_spent, self._stop.total_bytes)]
        return min(1.0, max((spent / limit for spent, limit in used if limit is not None), default=0.0))

    def over(self, now: float) -> bool:
        """Whether the run is over; notes why."""
        stop = self._stop
        if self.stopped_by is None:
            if stop.visits is not None and self.visits >= stop.visits:
                self.stopped_by = "visits"
            elif stop.sim_time_s is not None and now >= stop.sim_time_s:
                self.stopped_by = "sim_time_s"
            elif stop.total_bytes is not None and self._bytes_spent >= stop.total_bytes:
                self.stopped_by = "total_bytes"
            elif stop.total_bytes is not None and self._silent_visits > 20 + 2 * len(self.visits_to):
                self.stopped_by = "nothing_sent"
            elif stop.accuracy is not None and self.accuracy >= stop.accuracy:
                self.stopped_by = "accuracy"
            elif self._diverged:
                self.stopped_by = "diverged"
            elif self._missed_in_a_row > 20 + 2 * len(self.visits_to):
                self.stopped_by = "nobody_reached"
        return self.stopped_by is not None

    def interrupt(self) -> None:
        """End the run after the present visit."""
        self.stopped_by = self.stopped_by or "interrupted"

    def welcome(self, late: IntArray) -> None:
        """These clients join now."""
        if self.rehearses:
            return
        self._late = late
        self._late_token_acc = float(self._evaluator.token_accuracy()[late].mean())

    def miss(self, vehicle: int) -> None:
        """A client was chased in vain."""
        self.missed += 1
        self._missed_in_a_row += 1
        self._missed_since[vehicle] += 1

    def meet(self, meeting: Meeting) -> None:
        """Enter a meeting of two vehicles that has just ended, and log it."""
        outcome, charged = meeting.outcome, int(meeting.exchange.charged)
        sent = outcome.air_bytes_down + outcome.air_bytes_up
        self.now = outcome.end_s
        self.meetings += 1
        self.meetings_delivered += meeting.delivered
        self.bytes_between += charged * sent
        self._bytes_spent += sent
        self.airtime_s += outcome.airtime_s
        (a, b), ((a_x_m, a_y_m), (b_x_m, b_y_m)) = meeting.vehicles, meeting.positions
        row = {
            "meeting": self.meetings,
            "sim_time_s": outcome.end_s,
            "visits": self.visits,
            **{"a": a, "b": b, "a_x_m": a_x_m, "a_y_m": a_y_m, "b_x_m": b_x_m, "b_y_m": b_y_m},
            "meeting_s": outcome.end_s - meeting.began_s,
            "airtime_s": outcome.airtime_s,
            "bytes": charged * sent,
            "delivered": meeting.delivered,
        }
        self._log.meeting(row)

    def visit(self, visit: Visit) -> None:
        """Enter a visit that has just ended, and log it."""
        outcome, update, client = visit.outcome, visit.update, visit.contact.visited
        delivered = visit.contact.clients
        vehicle = visit.vehicle or 0
        travel_s = visit.began_s - self._last_end_s.get(vehicle, 0.0)
        self._last_end_s[vehicle] = outcome.end_s
        charged = int(visit.exchange.charged)
        self.now = outcome.end_s
        self.visits += 1
        self._missed_in_a_row = 0
        if client is not None:
            self.visits_to[client] += 1
        steps = update.gradient_steps if update else 0
        self.gradient_steps[delivered] += steps
        self.received[visit.active] += charged * outcome.bytes_down
        self.sent[visit.active] += charged * outcome.bytes_up
        self.bytes_down += charged * outcome.air_bytes_down
        self.bytes_up += charged * outcome.air_bytes_up
        sent = outcome.air_bytes_down + outcome.air_bytes_up
        self._bytes_spent += sent
        self._silent_visits = 0 if sent else self._silent_visits + 1
        self.active += len(visit.active)
        self.delivered += len(delivered)
        self.travel_s += travel_s
        self.airtime_s += outcome.airtime_s
        if self.rehearses:
            return
        self._evaluator.changed(delivered)
        due = self.visits % self._evaluate_every == 0
        if self._evaluate_contacts or due:
            self._evaluator.look_again()
        row = {
            "visit": self.visits,
            "client": client,
            "sim_time_s": self.now,
            "host_time_s": self.host_time_s,
            "vehicle": visit.vehicle,
            "vehicle_x_m": None if visit.position is None else visit.position[0],
            "vehicle_y_m": None if visit.position is None else visit.position[1],
            "travel_s": travel_s,
            "contact_s": outcome.end_s - visit.began_s,
            "airtime_s": outcome.airtime_s,
            "compute_s": outcome.compute_s,
            "missed": self._missed_since.pop(vehicle, 0),
            "neighbours": visit.contact.neighbourhood,
            "active": len(visit.active),
            "delivered": len(delivered),
            "active_ids": visit.active,
            "delivered_ids": delivered,
            "bytes_down": charged * outcome.air_bytes_down,
            "bytes_up": charged * outcome.air_bytes_up,
            "bytes_between": self.bytes_between - self._between_reported,
            "gradient_steps": steps * len(delivered),
        }
        if update:
            self._diverged = not math.isfinite(update.train_loss)
            row |= {name: getattr(update, name) for name in ("train_loss", "token_step_norm", "kappa")}
        last = self.over(self.now) and self.stopped_by != "interrupted"  # who was interrupted may go on
        if due or last:
            row |= self.evaluate()
        if due or last or self._evaluate_contacts:
            row |= self._personal()
        self._between_reported = self.bytes_between
        self._log.contact(row)
        self._remember(row)

    def evaluate(self) -> dict[str, Any]:
        """Look at all clients: log a row for each, return what goes with the visit."""
        n = len(self.visits_to)
        self._evaluated_at = self.visits
        seen = self._evaluator.overview(self.progress(self.now))
        self._log.clients(
            {
                "visit": np.full(n, self.visits),
                "sim_time_s": np.full(n, self.now),
                "client": np.arange(n),
                "test_acc": self._evaluator.test.accuracy,
                "token_test_acc": seen.token_test_acc,
                "test_samples": self._evaluator.test.count,
                "visits": self.visits_to,
                "participations": self._participations,
                "gradient_steps": self.gradient_steps,
                "bytes_down": self.received,
                "bytes_up": self.sent,
            }
        )
        found = {
            "token_test_acc": float(seen.token_test_acc.mean()),
            "lagrangian": seen.lagrangian,
            "lyapunov": seen.lyapunov,
        }
        if seen.constraint is not None:
            names = ("violation_max", "violation_rms", "violated_share", "dual_norm")
            found |= {name: getattr(seen.constraint, name) for name in names}
        return found

    def finish(self, now: float) -> dict[str, Any]:
        """The summary of the run."""
        self.now = now
        self.over(now)
        if self._evaluated_at != self.visits:
            self._remember(self.evaluate() | self._personal())
        return {
            "name": self.scenario.name,
            "algorithm": self.scenario.learning.algorithm.kind,
            "seed": self.scenario.seed,
            "finished": self.stopped_by != "interrupted",
            "stopped_by": self.stopped_by,
            "clients": len(self.visits_to),
            "visits": self.visits,
            "clients_visited": int((self.visits_to > 0).sum()),
            "clients_reached": int((self._participations > 0).sum()),
            "missed": self.missed,
            "meetings": self.meetings,
            "meetings_delivered": self.meetings_delivered,
            "sim_time_s": now,
            "host_time_s": self.host_time_s,
            "travel_s": self.travel_s,
            "airtime_s": self.airtime_s,
            "bytes_down": self.bytes_down,
            "bytes_up": self.bytes_up,
            "bytes_between": self.bytes_between,
            "active": self.active,
            "delivered": self.delivered,
            "gradient_steps": int(self.gradient_steps.sum()),
            "beta": self._beta if "lagrangian" in self._last else None,
            "smoothness": self._evaluator.smoothness,
            "start_personal_test_acc_mean": self.start_acc,
            **self._personal(),
            "late_token_test_acc": self._late_token_acc,
            "late_personal_test_acc": self._mean_accuracy(self._late),
            **{name: self._last.get(name) for name in LAST_VALUES},
        }

    def _personal(self) -> dict[str, float]:
        """How good the personal models are, as last looked at."""
        test, validation = self._evaluator.test, self._evaluator.validation
        found = {"personal_test_acc_mean": test.mean, "personal_test_acc_weighted": test.weighted}
        return found if validation is None else found | {"personal_validation_acc_mean": validation.mean}

    def _mean_accuracy(self, clients: IntArray | None) -> float | None:
        return None if clients is None else float(self._evaluator.test.accuracy[clients].mean())

    def _remember(self, row: dict[str, Any]) -> None:
        self._last |= {name: row[name] for name in LAST_VALUES if row.get(name) is not None}
