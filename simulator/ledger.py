"""Counts, totals and accuracies of a run so far: a row of the log per visit, and in the end the summary."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import replace
from typing import TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from fedmule.learning.algorithms.base import Update
from fedmule.learning.evaluate import Overview
from fedmule.learning.learner import Learner
from fedmule.simulator.divergence import Divergence
from fedmule.simulator.events import Drive, Meeting, Visit
from fedmule.simulator.runs.columns import (
    ClientRows,
    ContactRow,
    LastValues,
    MeetingRow,
    StopReason,
    Summary,
    TimeSpent,
)
from fedmule.simulator.runs.ending import ending_of
from fedmule.simulator.runs.folder import NoLog
from fedmule.simulator.runs.verdict import mean_known, over_alone
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.stopping import Stopping

IntArray = NDArray[np.int64]


class _Personal(TypedDict):
    """Accuracies of personal models, by their names in contacts and in the summary."""

    personal_test_acc_mean: float
    personal_test_acc_weighted: float
    personal_validation_acc_mean: float | None  # None: there is no validation part


class Ledger:
    """Counts visits, bytes and time, evaluates models when they are due, and logs both."""

    def __init__(self, scenario: Scenario, learner: Learner) -> None:
        n = scenario.clients.count
        self._scenario = scenario
        self._learner = learner
        self._log = NoLog()
        self._began = time.perf_counter()
        self._stopping = Stopping(scenario.stop, n)
        self._divergence = Divergence(learner.start_loss, learner.classes, scenario.learning, learner.usual_beta)
        self.contacts = self.visits = self.missed = self.meetings = self.meetings_delivered = 0
        self._not_reached: Counter[int] = Counter()  # clients, by each vehicle since its last visit
        self._last_end_s: dict[int, float] = {}  # of each vehicle's last visit
        self._groups = [division.label for division in scenario.clients.divisions() for _ in range(division.count)]
        self.visits_to = np.zeros(n, dtype=np.int64)
        self.gradient_steps = np.zeros(n, dtype=np.int64)
        self.received, self.sent = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        self.bytes_down = self.bytes_up = self.bytes_between = self.active = self.delivered = 0
        self._between_logged = 0  # of bytes_between
        self.travel_s = self.airtime_s = self.now = 0.0
        self._visits_s = self._visits_setup_s = self._visits_airtime_s = 0.0
        self._start_accuracy = self.accuracy
        self._evaluated_at = -1  # the contact after which all clients were evaluated last
        self._evaluated_s = 0.0  # when that was
        self._late: IntArray | None = None  # who joined late
        self._late_token_accuracy: float | None = None  # on their test data, when they joined
        self._last = _last_values(None, None)

    def open(self, log: NoLog) -> None:
        """Log to `log` from now on."""
        self._log = log

    def start(self) -> None:
        """Start counting host time, and evaluate everyone before the first visit."""
        self._began = time.perf_counter()
        self._last = _newer(self._last, _last_values(None, self._evaluate()))

    def resume(self, host_time_s: float) -> None:
        """Continue from a checkpoint that was written after `host_time_s`."""
        self._began = time.perf_counter() - host_time_s
        self._stopping.resume()

    def constants(self) -> list[object]:
        """Objects the checkpoint must not copy."""
        return [self._scenario, self._learner, self._log, self._stopping.limits, self._groups]

    # --- where the run stands ------------------------------------------------------------------------------

    @property
    def host_time_s(self) -> float:
        """Seconds on this computer since the run began; a resumed run continues from its checkpoint."""
        return time.perf_counter() - self._began

    @property
    def accuracy(self) -> float:
        """Test accuracy of personal models, mean over clients, as last evaluated."""
        return self._learner.test.mean

    @property
    def stopped_by(self) -> StopReason | None:
        """Why the run is over; None while it is not."""
        return self._stopping.stopped_by

    def progress(self, now: float) -> float:
        """The share of the run's budget that is used up, by whichever limit is nearest."""
        return self._stopping.progress(now)

    def over(self, now: float) -> bool:
        """Whether the run is over; notes why."""
        return self._stopping.over(now, self.accuracy)

    def interrupt(self) -> None:
        """End the run after the present visit."""
        self._stopping.interrupt()

    # --- what happens --------------------------------------------------------------------------------------

    def joined(self, late: IntArray) -> None:
        """Enter clients that join late, and the token's accuracy on their test data."""
        self._late = late
        self._late_token_accuracy = float(self._learner.token_accuracy()[late].mean())

    def not_reached(self, vehicle: int) -> None:
        """Enter a client that a vehicle gave up."""
        self.missed += 1
        self._not_reached[vehicle] += 1
        self._stopping.not_reached()

    def nobody_comes(self) -> None:
        """Enter that no client is there and none will ever come: the run is over."""
        self._stopping.nobody_comes()

    def meeting(self, meeting: Meeting) -> None:
        """Enter a meeting of two vehicles that has just ended, and log it."""
        outcome = meeting.outcome
        sent = outcome.air_bytes_down + outcome.air_bytes_up
        charged = sent if meeting.exchange.charged else 0
        self.now = outcome.end_s
        self.meetings += 1
        self.meetings_delivered += meeting.delivered
        self.bytes_between += charged
        self.airtime_s += outcome.airtime_s
        self._stopping.meeting(sent)
        (a, b), nowhere = meeting.vehicles, [[None, None]] * 2
        (a_x_m, a_y_m), (b_x_m, b_y_m) = nowhere if meeting.positions is None else meeting.positions.tolist()
        self._log.meeting(
            MeetingRow(
                meeting=self.meetings,
                sim_time_s=outcome.end_s,
                visits=self.visits,
                a=a,
                b=b,
                a_x_m=a_x_m,
                a_y_m=a_y_m,
                b_x_m=b_x_m,
                b_y_m=b_y_m,
                meeting_s=outcome.end_s - meeting.began_s,
                airtime_s=outcome.airtime_s,
                bytes=charged,
                delivered=meeting.delivered,
            )
        )

    def visit(self, visit: Visit) -> None:
        """Enter a visit or a contact in passing that has just ended, evaluate what is due, and log both."""
        travel_s = self._count(visit)
        learning, outcome, update = self._scenario.learning, visit.outcome, visit.update
        due = self.contacts % learning.evaluate_every == 0
        if due or learning.evaluate_contacts:
            self._learner.refresh(self.now)
        last = self.over(self.now) and self.stopped_by != "interrupted"  # an interrupted run may be resumed
        judged = due or last or learning.evaluate_contacts
        values = _last_values(update, self._evaluate() if due or last else None)
        charged = int(visit.exchange.charged)
        row = ContactRow(
            contact=self.contacts,
            visit=self.visits,
            in_passing=visit.in_passing,
            client=visit.contact.visited,
            sim_time_s=self.now,
            host_time_s=self.host_time_s,
            vehicle=visit.vehicle,
            vehicle_x_m=None if visit.position is None else float(visit.position[0]),
            vehicle_y_m=None if visit.position is None else float(visit.position[1]),
            travel_s=travel_s,
            contact_s=outcome.end_s - visit.began_s,
            airtime_s=outcome.airtime_s,
            compute_s=outcome.compute_s,
            missed=0 if visit.in_passing else self._not_reached.pop(visit.vehicle or 0, 0),
            neighbours=visit.contact.neighbourhood,
            active=len(visit.active),
            delivered=len(visit.contact.clients),
            active_ids=visit.active,
            delivered_ids=visit.contact.clients,
            bytes_down=charged * outcome.air_bytes_down,
            bytes_up=charged * outcome.air_bytes_up,
            bytes_between=self.bytes_between - self._between_logged,
            payload_bytes=self._learner.payload_bytes,
            gradient_steps=_total_steps(update, len(visit.contact.clients)),
            age_s=update.age_s if update else None,
            **values,
        )
        if judged:
            row = replace(row, **self._personal(), delivered_test_acc=self._learner.test.accuracy[row.delivered_ids])
        self._log.contact(row)
        self._between_logged = self.bytes_between
        self._last = _newer(self._last, values)

    def finish(self, now: float, reports: int, reports_lost: int, drive: Drive | None = None) -> Summary:
        """The summary of the run, in which clients have sent so many reports, and vehicles have driven so far."""
        self.now = now
        self.over(now)
        if self._evaluated_at != self.contacts:
            self._last = _newer(self._last, _last_values(None, self._evaluate()))
        self._learner.refresh(now)
        scenario, learner = self._scenario, self._learner
        alone = learner.alone_accuracy(self._evaluated_s)
        steps = int(self.gradient_steps.sum())
        return {
            "name": scenario.name,
            "algorithm": scenario.learning.algorithm.kind,
            "seed": scenario.seed,
            "finished": self.stopped_by != "interrupted",
            "ending": ending_of({"stopped_by": self.stopped_by, "gradient_steps": steps}),
            "stopped_by": self.stopped_by,
            "divergence": self._divergence.words,
            "clients": len(self.visits_to),
            "contacts": self.contacts,
            "visits": self.visits,
            "clients_visited": int((self.visits_to > 0).sum()),
            "clients_reached": int((learner.participations > 0).sum()),
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
            "reports": reports,
            "reports_lost": reports_lost,
            "report_bytes": reports * scenario.clients.report_bytes,
            "payload_bytes": learner.payload_bytes,
            "payload_flops_per_sample": learner.payload_flops_per_sample,
            "trained_bytes": learner.trained_bytes,
            "prior": learner.prior,
            "clients_own_labels": learner.clients_own_labels,
            "active": self.active,
            "delivered": self.delivered,
            "gradient_steps": steps,
            "beta": None if self._last["lagrangian"] is None else learner.beta,
            "smoothness": learner.smoothness,
            "start_personal_test_acc_mean": self._start_accuracy,
            **self._personal(),
            "late_token_test_acc": self._late_token_accuracy,
            "late_personal_test_acc": None if self._late is None else float(learner.test.accuracy[self._late].mean()),
            **self._time_spent(drive),
            **self._last,
            **over_alone(
                *(learner.test.accuracy, alone, scenario.learning.algorithm.kind, scenario.learning.server),
                learner.clients_alone,
            ),
        }

    # --- steps of it ---------------------------------------------------------------------------------------

    def _count(self, visit: Visit) -> float:
        """Add a contact to all counts and totals; returns the time since the vehicle's last visit, s."""
        outcome, delivered, vehicle = visit.outcome, visit.contact.clients, visit.vehicle or 0
        travel_s = 0.0
        self.now = outcome.end_s
        charged = int(visit.exchange.charged)
        self.contacts += 1
        if not visit.in_passing:
            travel_s = visit.began_s - self._last_end_s.get(vehicle, 0.0)
            self._last_end_s[vehicle] = outcome.end_s
            self.visits += 1
            self._visits_s += outcome.end_s - visit.began_s
            self._visits_setup_s += visit.setup_s
            self._visits_airtime_s += outcome.airtime_s
            if visit.contact.visited is not None:
                self.visits_to[visit.contact.visited] += 1
        if visit.update:
            self.gradient_steps[delivered] += visit.update.gradient_steps
            sizes = {"the token's step": visit.update.token_step_norm, **self._learner.sizes(delivered)}
            self._divergence.learnt(visit.update.train_loss, sizes, self.visits, self.contacts, visit.contact.visited)
            self._stopping.diverged = self._divergence.words is not None
        self.received[visit.active] += charged * outcome.bytes_down
        self.sent[visit.active] += charged * outcome.bytes_up
        self.bytes_down += charged * outcome.air_bytes_down
        self.bytes_up += charged * outcome.air_bytes_up
        self.active += len(visit.active)
        self.delivered += len(delivered)
        self.travel_s += travel_s
        self.airtime_s += outcome.airtime_s
        self._stopping.contact(outcome.air_bytes_down + outcome.air_bytes_up, visit.in_passing)
        return travel_s

    def _evaluate(self) -> Overview:
        """Evaluate all clients, and log a row for each."""
        n, test = len(self.visits_to), self._learner.test
        self._evaluated_at, self._evaluated_s = self.contacts, self.now
        alone = self._learner.alone_accuracy(self.now)
        seen = replace(self._learner.overview(self.progress(self.now), self.now), alone_test_acc=alone)
        self._log.clients(
            ClientRows(
                contact=np.full(n, self.contacts),
                visit=np.full(n, self.visits),
                sim_time_s=np.full(n, self.now),
                client=np.arange(n),
                group=self._groups,
                site=self._learner.sites,
                test_acc=test.accuracy,
                token_test_acc=seen.token_test_acc,
                alone_test_acc=alone,
                test_samples=test.count,
                visits=self.visits_to,
                participations=self._learner.participations,
                gradient_steps=self.gradient_steps,
                bytes_down=self.received,
                bytes_up=self.sent,
            )
        )
        return seen

    def _time_spent(self, drive: Drive | None) -> TimeSpent:
        """How vehicles have spent their time; nothing known of an ideal server."""
        if drive is None:
            nothing: TimeSpent = dict.fromkeys(TimeSpent.__annotations__)  # type: ignore[assignment]
            return nothing
        return {
            "driven_s": drive.moving_s,
            "driven_m": drive.metres,
            "visits_s": self._visits_s,
            "visits_setup_s": self._visits_setup_s,
            "visits_airtime_s": self._visits_airtime_s,
            "stood_s": max(0.0, drive.vehicles * self.now - drive.moving_s - self._visits_s),
        }

    def _personal(self) -> _Personal:
        """Accuracies of personal models, as last evaluated."""
        test, validation = self._learner.test, self._learner.validation
        return {
            "personal_test_acc_mean": test.mean,
            "personal_test_acc_weighted": test.weighted,
            "personal_validation_acc_mean": None if validation is None else validation.mean,
        }


def _total_steps(update: Update | None, delivered: int) -> int:
    """Gradients that the delivered clients have computed together."""
    return int(np.broadcast_to(update.gradient_steps, delivered).sum()) if update else 0


def _last_values(update: Update | None, seen: Overview | None) -> LastValues:
    """What an update and an evaluation of all clients found; None where there was none, or no number."""
    constraint = seen.constraint if seen else None
    found: dict[str, float | None] = {
        "token_test_acc": float(seen.token_test_acc.mean()) if seen else None,
        "alone_test_acc_mean": mean_known(seen.alone_test_acc) if seen else None,
        "train_loss": update.train_loss if update else None,
        "violation_max": constraint.violation_max if constraint else None,
        "violation_rms": constraint.violation_rms if constraint else None,
        "violated_share": constraint.violated_share if constraint else None,
        "dual_norm": constraint.dual_norm if constraint else None,
        "lagrangian": seen.lagrangian if seen else None,
        "lyapunov": seen.lyapunov if seen else None,
        "token_step_norm": update.token_step_norm if update else None,
        "kappa": update.kappa if update else None,
    }
    known = {name: value if value is not None and math.isfinite(value) else None for name, value in found.items()}
    return cast(LastValues, known)


def _newer(old: LastValues, new: LastValues) -> LastValues:
    """The new values, and the old ones where there is none."""
    return cast(LastValues, {**old, **{name: value for name, value in new.items() if value is not None}})
