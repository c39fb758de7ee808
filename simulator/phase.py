"""The phases of a run: live, and before that, where a run is resumed, the replay of its past."""

from __future__ import annotations

from collections.abc import Callable

from fedmule.learning.journal import Journal
from fedmule.learning.learner import Learner, ReplayingLearner
from fedmule.simulator.ledger import Ledger
from fedmule.simulator.runs.folder import NoLog
from fedmule.simulator.scenario import Scenario

Watch = Callable[[Ledger], None]


class Phase:
    """The learner, the ledger and the log of a part of the run; they change together, with the phase.

    In this phase clients learn and everything is logged.
    """

    def __init__(self, scenario: Scenario, learner: Learner) -> None:
        self.scenario = scenario
        self.learner = learner
        self.ledger = Ledger(scenario, learner)
        self.log = NoLog()
        self._watch: Watch = _nobody

    def open(self, log: NoLog, watch: Watch | None) -> None:
        """Log to `log` from now on, and call `watch` after every contact."""
        self.log, self._watch = log, watch or _nobody
        self.ledger.open(log)

    def start(self, log: NoLog, watch: Watch | None) -> None:
        """Start the run: evaluate everyone before the first visit."""
        self.open(log, watch)
        self.ledger.start()

    def after_contact(self) -> Phase:
        """The phase in which the run continues."""
        self._watch(self.ledger)
        return self

    def interrupt(self) -> None:
        """End the run after the present visit."""
        self.ledger.interrupt()


class Replay(Phase):
    """The past of a run up to a contact: the world moves as it did, nobody learns and nothing is logged.

    Then `restore` puts what was learnt and counted by then into the live phase, which takes over. `since`: how many
    costs and reports were in the journal when the replayed part began.
    """

    def __init__(
        self, live: Phase, journal: Journal, contacts: int, restore: Callable[[], None], since: tuple[int, int] = (0, 0)
    ) -> None:
        self._replaying = ReplayingLearner(live.learner, journal, since)
        super().__init__(live.scenario, self._replaying)
        self._live, self._contacts, self._restore = live, contacts, restore

    def start(self, log: NoLog, watch: Watch | None) -> None:
        self._live.open(log, watch)

    def after_contact(self) -> Phase:
        if self.ledger.contacts < self._contacts:
            return self
        self._replaying.finish()
        self._restore()
        return self._live

    def interrupt(self) -> None:
        """End the run at once: nothing has changed since its checkpoint."""
        raise KeyboardInterrupt


def _nobody(ledger: Ledger) -> None:
    """Watch nothing."""
