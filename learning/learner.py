"""The one object through which the event loop learns, and its stand-in while a resumed run replays its past."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Contact, Exchange, Update
from fedmule.learning.alone import Alone
from fedmule.learning.alone_or_together import ALONE, AloneOrTogether
from fedmule.learning.at_contact import AtContact
from fedmule.learning.client_reports import Reports, losses_of, reports_of
from fedmule.learning.data.sites import SiteData
from fedmule.learning.errors import ReplayError
from fedmule.learning.evaluate import Evaluator, Overview, Score
from fedmule.learning.growth import sizes_of
from fedmule.learning.journal import Journal
from fedmule.learning.tokens import Carried

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class Learner:
    """What the event loop asks of learning: costs of exchanges, updates, clients that join or move, accuracies.

    It notes the cost of every exchange in its journal. An exchange starts with `begin`, when clients are sent what they
    learn from, and ends with `update` for those whose exchange got through and `drop` for the others.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        carried: Carried,
        evaluator: Evaluator,
        device: torch.device,
        memory_bytes: int,
        site_data: SiteData | None = None,
        training: AtContact | None = None,
        alone: Alone | None = None,
        choice: AloneOrTogether | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.carried = carried
        self.evaluator = evaluator
        self.device = device
        self.memory_bytes = memory_bytes  # of client state and data, about
        self.site_data = site_data
        self.training = training or AtContact(algorithm, carried)  # when clients compute
        self.alone = alone  # None: nobody trains alone
        self.choice = choice  # None: clients always use what the algorithm gives them
        self.journal = Journal()

    def cost(self, vehicle: int, clients: IntArray, progress: float, now_s: float) -> Exchange:
        """Cost of an exchange of this vehicle with these clients: bytes and FLOPs; nothing is sent.

        `progress` is the share of the run that is over.
        """
        if self.choice is None:
            return self.journal.add(self.training.cost(clients, progress, now_s))
        part = self.choice.take_part(clients, progress)
        return self.journal.add(self.choice.cost(self.training.cost(clients[part], progress, now_s), clients, part))

    def begin(
        self,
        vehicle: int,
        clients: IntArray,
        progress: float,
        now_s: float,
        visited: int | None = None,
        near: IntArray | None = None,
    ) -> Exchange:
        """Begin an exchange of this vehicle with these clients: keep what they are sent now, and return its cost.

        `visited` and `near` are those of the contact, where they are known: tokens of neighbourhoods depend on them.
        """
        if self.choice is None:
            return self.journal.add(self.training.begin(vehicle, clients, progress, now_s, visited, near))
        part = self.choice.take_part(clients, progress)
        begun = self.training.begin(vehicle, clients[part], progress, now_s, visited, near)
        return self.journal.add(self.choice.cost(begun, clients, part))

    def shorten(self, client: int, local_steps: int, cost: Exchange) -> Exchange:
        """Let a client that has begun an exchange alone take fewer steps; return what the exchange costs then."""
        return self.journal.add(self.training.shorten(client, local_steps, cost))

    def meeting_cost(self, a: int, b: int, progress: float) -> Exchange:
        """Cost of an exchange between two vehicles: down is from a to b."""
        return self.journal.add(self.carried.meeting(a, b, progress))

    def update(self, vehicle: int, contact: Contact) -> Update | None:
        """Update with exactly the delivered clients, from what they were sent; None if there are none."""
        if not len(contact.clients):
            return None
        if self.choice is None:
            update = self.training.update(vehicle, contact)
        else:
            update = self._update_part(vehicle, contact, self.choice)
        everyone = np.arange(len(self.participations))
        self.evaluator.changed(everyone if self.algorithm.one_for_all else contact.clients)
        return update

    def _update_part(self, vehicle: int, contact: Contact, choice: AloneOrTogether) -> Update:
        """Update with those of the delivered clients that take part, and let them try what the token is worth."""
        part = choice.take_part(contact.clients, contact.progress)
        steps, update = np.zeros(len(part), dtype=np.int64), Update(None, 0, 0.0)
        losses = np.full(len(part), np.nan)
        if part.any():
            update = self.training.update(vehicle, replace(contact, clients=contact.clients[part]))
            steps[part] = update.gradient_steps
            losses[part] = losses_of(update, int(part.sum()))
        self.algorithm.participations[contact.clients[~part]] += 1
        choice.met(contact, steps)
        return replace(update, gradient_steps=steps, losses=losses)

    def expect_reports(self) -> None:
        """Note that a vehicle asks for what clients report."""
        self.algorithm.losses_of_each = True

    def reports(self, clients: IntArray, update: Update | None) -> Reports:
        """Return what the delivered clients report after an update."""
        return self.journal.add_reports(reports_of(self.algorithm, clients, update))

    def drop(self, clients: IntArray) -> None:
        """Forget what was sent to clients whose exchange was lost."""
        self.training.drop(clients)

    def meet(self, a: int, b: int) -> None:
        """Merge what two vehicles carry, after an exchange that got through."""
        self.carried.meet(a, b)

    def introduce(self, client: int, near: IntArray) -> None:
        """Let a client join late, near these others."""
        self.algorithm.introduce(client, near)

    def move(self, clients: IntArray, sites: IntArray, now_s: float) -> None:
        """Move clients to other sites for good: their data become like those there."""
        if self.site_data is not None:
            self.training.settle(clients, now_s)
            for alone in self._all_alone():
                alone.leave(clients, now_s)
            self.site_data.move(clients, sites)
            for alone in self._all_alone():
                alone.arrive(clients, now_s)
            if self.choice is not None:
                self.choice.forget(clients)
            self.algorithm.forget(clients)
            self.evaluator.changed(clients)
            self.refresh(now_s)

    # --- evaluation ----------------------------------------------------------------------------------------

    @property
    def test(self) -> Score:
        """Personal models on the clients' test data, as of the last `refresh`."""
        return self.evaluator.test

    @property
    def validation(self) -> Score | None:
        """The same on their validation data; None where they have none."""
        return self.evaluator.validation

    @property
    def participations(self) -> IntArray:
        """Exchanges of each client [n] that got through."""
        return self.algorithm.participations

    @property
    def sites(self) -> IntArray | None:
        """The site of each client [n] now; None where sites do not matter."""
        return None if self.site_data is None else self.site_data.data.site

    @property
    def clients_alone(self) -> int | None:
        """Number of clients that chose to train alone; None where there is no such choice."""
        return None if self.choice is None else int((self.choice.choice == ALONE).sum())

    @property
    def clients_own_labels(self) -> int | None:
        """Number of clients that added their own labels to the token they took; None if no rule lets them."""
        added = self.algorithm.added
        return None if added is None else int(added.sum())

    @property
    def payload_bytes(self) -> int:
        """Bytes of one model on the air."""
        return self.algorithm.model_bytes

    @property
    def payload_flops_per_sample(self) -> float | None:
        """FLOPs of one sample's share of a gradient step, where they are not those of the trained model."""
        return self.algorithm.payload.flops_per_sample

    @property
    def trained_bytes(self) -> int:
        """Bytes of the parameters that are trained."""
        return self.algorithm.trained_bytes

    @property
    def prior(self) -> float | None:
        """Number that the prior adds to the count of every label; None if no prior is used."""
        prior = self.algorithm.data.prior
        return None if prior is None else prior.extra

    @property
    def beta(self) -> float | None:
        """The penalty β the algorithm is run with."""
        return self.algorithm.beta

    @property
    def usual_beta(self) -> float | None:
        """The penalty β that the algorithm has by default, if it has one."""
        return self.algorithm.usual_beta

    @property
    def start_loss(self) -> float:
        """Training loss of the model that everyone starts with, mean over clients."""
        return self.evaluator.start_loss

    @property
    def classes(self) -> int:
        """Number of classes in the data."""
        return self.algorithm.data.classes

    def sizes(self, clients: IntArray) -> dict[str, float]:
        """Return how large the token is now, and what these clients hold, by name: they show that models diverge."""
        return sizes_of(self.algorithm, clients)

    @property
    def smoothness(self) -> float | None:
        """L of the clients' losses, where a constraint needed it and the model knows it."""
        return self.evaluator.smoothness

    def refresh(self, now_s: float) -> None:
        """Bring the accuracies of clients whose models changed up to date: those of the models they hold now."""
        self.evaluator.trained(self.training.trained(now_s))
        if self.choice is not None:
            self.evaluator.trained(self.choice.improved(now_s))
        self.evaluator.refresh(lambda client: self.model(client, now_s))

    def model(self, client: int, now_s: float) -> Tensor:
        """Return the personal model [d] that a client uses now."""
        own = None if self.choice is None else self.choice.own_model(client, now_s)
        return self.training.model(client, now_s) if own is None else own

    def overview(self, progress: float, now_s: float) -> Overview:
        """Evaluate what needs all clients at once; refreshes their accuracies too."""
        self.refresh(now_s)
        return self.evaluator.overview(progress)

    def token_accuracy(self) -> FloatArray:
        """Accuracy [n] of the token on each client's test data."""
        return self.evaluator.token_accuracy()

    def alone_accuracy(self, now: float) -> FloatArray:
        """Test accuracy [n] of models trained alone until now; nan for clients that do not train alone."""
        return np.full(len(self.participations), np.nan) if self.alone is None else self.alone.accuracy(now)

    # --- for the checkpoint --------------------------------------------------------------------------------

    def state(self) -> dict[str, object]:
        """Objects that learning changes, by name; the journal is kept apart."""
        parts: dict[str, object] = {
            "algorithm": self.algorithm,
            "carried": self.carried,
            "evaluator": self.evaluator,
            "training": self.training,
        }
        if self.choice is not None:
            parts["choice"] = self.choice
        return parts if self.alone is None else {**parts, "alone": self.alone}

    def constants(self) -> list[object]:
        """Objects the checkpoint must not copy."""
        parts = [self, self.algorithm.model, self.algorithm.data, self.algorithm, self.carried, self.evaluator]
        if self.choice is not None:
            parts += self.choice.constants()
            if self.choice.alone is self.alone:
                parts.append(self.alone)
        return [*parts, *(constant for alone in self._all_alone() for constant in alone.constants())]

    def _all_alone(self) -> list[Alone]:
        """Return what trains alone, for comparison or because clients use it; often it is the same."""
        choices = () if self.choice is None else (self.choice.alone,)
        found = {id(alone): alone for alone in (self.alone, *choices) if alone is not None}
        return list(found.values())


class ReplayingLearner(Learner):
    """Takes the costs of exchanges and what clients reported from a journal; nobody learns and nothing is evaluated.

    Only data change as they once did, since a checkpoint does not hold them. `since`: how many costs and reports were
    in the journal when the replayed part began.
    """

    def __init__(self, learner: Learner, journal: Journal, since: tuple[int, int] = (0, 0)) -> None:
        parts = (learner.algorithm, learner.carried, learner.evaluator)
        super().__init__(*parts, learner.device, learner.memory_bytes, learner.site_data, learner.training)
        self._journal, self._costs = journal, journal.costs(since[0])
        self._reported = since[1]  # reports taken from the journal

    def cost(self, vehicle: int, clients: IntArray, progress: float, now_s: float) -> Exchange:
        return self._next_cost(len(clients))

    def begin(
        self,
        vehicle: int,
        clients: IntArray,
        progress: float,
        now_s: float,
        visited: int | None = None,
        near: IntArray | None = None,
    ) -> Exchange:
        return self._next_cost(len(clients))

    def shorten(self, client: int, local_steps: int, cost: Exchange) -> Exchange:
        return self._next_cost(1)

    def meeting_cost(self, a: int, b: int, progress: float) -> Exchange:
        return self._next_cost(1)

    def update(self, vehicle: int, contact: Contact) -> Update | None:
        return None

    def reports(self, clients: IntArray, update: Update | None) -> Reports:
        found = self._journal.reports(self._reported, len(clients))
        if len(found.losses) != len(clients):
            raise ReplayError("more clients reported than its journal has")
        self._reported += len(clients)
        return found

    def drop(self, clients: IntArray) -> None:
        pass

    def meet(self, a: int, b: int) -> None:
        pass

    def introduce(self, client: int, near: IntArray) -> None:
        pass

    def move(self, clients: IntArray, sites: IntArray, now_s: float) -> None:
        if self.site_data is not None:
            self.site_data.move(clients, sites)

    def refresh(self, now_s: float) -> None:
        pass

    def overview(self, progress: float, now_s: float) -> Overview:
        return Overview(self.token_accuracy(), None, None, None)

    def token_accuracy(self) -> FloatArray:
        return np.full(len(self.participations), np.nan)

    def finish(self) -> None:
        """Raise ReplayError if the journal has costs that nobody asked for."""
        if next(self._costs, None) is not None:
            raise ReplayError("fewer exchanges took place than its journal has")

    def _next_cost(self, clients: int) -> Exchange:
        cost = next(self._costs, None)
        if cost is None:
            raise ReplayError("more exchanges took place than its journal has")
        if len(cost.flops) != clients:
            raise ReplayError(f"an exchange took place with {clients} clients, in its journal with {len(cost.flops)}")
        return cost
