"""Keys of the learning algorithms, each in its own table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from fedmule.learning.errors import FEATURES, TWO_LAYERS
from fedmule.simulator.errors import Problem
from fedmule.simulator.scenario.keys import Chosen, Count, NotNegative, OwnClass, Part, Positive, Share, key, one_of
from fedmule.simulator.scenario.models import ModelKeys

if TYPE_CHECKING:
    from fedmule.simulator.scenario import Scenario

Width = Annotated[float, Field(ge=0, allow_inf_nan=True)]  # of a tube; inf for none
Merge = Literal["add_up", "average"]

MERGE = (
    "what vehicles that meet make of their tokens: their changes add up, or each counts vehicle.count times and the "
)
MERGE += "tokens are averaged"
FINE_TUNE = "from learning.open_at on clients take the token once more and train on their own"
TOKEN_MEAN = (
    "share of the time before learning.open_at over whose tokens the one that clients then take is averaged; 0: they "
    "take the last one"
)
FINE_TUNE_STEP_SIZE = "step size from learning.open_at on; by default learning.step_size"

VARIANTS = {
    "relay": "learning.algorithms.relay:Relay",
    "slack": "learning.algorithms.rwsadmm:Slack",
    "derived": "learning.algorithms.published:Derived",
    "printed": "learning.algorithms.published:Printed",
}
NEIGHBOURHOOD = "learning.algorithms.neighbourhood:Neighbourhood"
FEDAVG = "learning.algorithms.fedavg:FedAvg"
FINE_TUNED = "learning.algorithms.fedavg:FineTuned"
FEDEX = {"sync": "learning.algorithms.fedex:FedExSync", "async": "learning.algorithms.fedex:FedExAsync"}


class RwsadmmKeys(Part):
    kind: Literal["rwsadmm"] = key("rwsadmm", "random-walk stochastic ADMM")
    variant: Literal["relay", "slack", "derived", "printed"] | None = key(
        None,
        "which form of it: the token is handed on (relay) or the mean of all contributions (slack); derived and "
        "printed take one gradient per visit; by default relay, and slack for neighbourhoods",
    )
    beta: Positive | None = key(None, "penalty β; by default 0.3 for slack and relay, 10 for the other variants")
    kappa: NotNegative = key(0.5, "dual step κ")
    kappa_decay: Annotated[float, Field(gt=0, le=1)] | None = key(
        None, "factor on κ per visit; by default 1 for slack and relay, 0.99 for the others"
    )
    eps: Width | Annotated[tuple[Width, ...], Field(strict=False, min_length=1)] = key(
        0.0, "half-width of the tube |x − y| ≤ eps, inf for none; or a list of one for each layer of the model"
    )
    project_on_arrival: bool = key(True, "slack, relay: start each visit inside the tube")
    trust: Annotated[float, Field(gt=0, allow_inf_nan=True)] | None = key(
        None,
        "slack, relay: no model moves farther in a visit than this many times the median of the last moves, inf for no "
        "limit; by default 2 for relay, inf for slack",
    )
    centre: Literal["held_out"] | Share = key(
        "held_out",
        "relay: share of the mean dual that is given back to clients, ζ; held_out: tokens' loss on samples learnt from "
        "divided by that on samples that one client in four holds out until learning.open_at",
    )
    token_mean: Share | None = key(None, f"slack, relay: {TOKEN_MEAN}; by default 0.25 for relay, 0 for slack")
    fine_tune_step_size: NotNegative | None = key(
        None, f"slack, relay: {FINE_TUNE_STEP_SIZE}, for relay 8/learning.local_steps of it if that is less"
    )
    own_labels: Literal["held_out"] | bool = key(
        "held_out",
        "relay: clients add the logarithm of how much more often they have each label than all clients do to the "
        "scores of the token that they take from learning.open_at on; held_out: if that is better on samples held out. "
        "Not with learning.prior, which does so all along",
    )
    try_at: Share | None = key(
        None,
        "slack, relay: share of the run by which each client has chosen between the token and training alone; 0: all "
        "take the token; by default 0.5 for relay and for neighbourhoods, 0 for slack",
    )
    growing_mean: bool = key(True, "slack: the token is the mean of the clients seen, not of all")
    token_pace: Annotated[float, Field(gt=0, le=1)] | None = key(
        None,
        "slack, derived: the token goes this share of the way to the mean of the delivered contributions; by default "
        "it is the mean of all clients' last ones",
    )
    merge: Merge = key("add_up", f"slack, derived: {MERGE}")
    token: Literal["global", "neighbourhood"] = key(
        "global", "slack: one token for all, or each client's own, drawn to what its neighbours contributed"
    )
    rho: Literal["cv", "eb"] | Share = key(
        "cv",
        "neighbourhood: its share ρ in a client's token; chosen by clients that try it out (cv), from the spread of "
        "contributions (eb), or fixed",
    )

    @classmethod
    def targets(cls) -> tuple[str, ...]:
        """The variants, and slack with a token for each neighbourhood."""
        return (*VARIANTS.values(), NEIGHBOURHOOD)

    @property
    def form(self) -> str:
        """The variant, chosen by the token if it is not given."""
        return self.variant or ("slack" if self.token == "neighbourhood" else "relay")

    def target(self) -> str:
        """Choose by variant and token."""
        return NEIGHBOURHOOD if self.token == "neighbourhood" else VARIANTS[self.form]

    def arguments(self) -> dict[str, Any]:
        """Return the keys, with the defaults of the variant where they are not given."""
        relay, near = self.form == "relay", self.token == "neighbourhood"
        usual = {"trust": 2.0 if relay else math.inf, "token_mean": 0.25 * relay, "try_at": 0.5 * (relay or near)}
        given = super().arguments()
        return given | {name: value for name, value in usual.items() if given[name] is None}

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check variants, tokens and several vehicles against each other."""
        several, open_at, form = scenario.vehicle.count > 1, scenario.learning.open_at, self.form
        if self.token == "neighbourhood" and (form != "slack" or scenario.learning.server == "star"):
            message = 'must be "global" unless variant = "slack" and learning.server = "vehicle"'
            yield Problem(f"{at}.token", message, "neighbourhood")
        elif self.token == "neighbourhood" and several:
            message = 'must be "global" for several vehicles: only one vehicle can know what everyone contributed'
            yield Problem(f"{at}.token", message, "neighbourhood")
        if self.token == "neighbourhood" and self.token_mean:
            yield Problem(f"{at}.token_mean", 'must be 0 for token = "neighbourhood"', self.token_mean)
        if self.own_labels is True and scenario.learning.prior_extra is not None:
            message = "must be false or held_out with learning.prior, with which models have their own labels all along"
            yield Problem(f"{at}.own_labels", message, True)
        if self.try_at and self.try_at > open_at:
            message = f"must be at most learning.open_at, {open_at:g}: the token is frozen from then on"
            yield Problem(f"{at}.try_at", message, self.try_at)
        if form in ("derived", "printed") and math.isinf(max(np.atleast_1d(self.eps))):
            yield Problem(f"{at}.eps", f'must be finite for variant = "{form}"', self.eps)
        model: Part = scenario.learning.model
        if isinstance(self.eps, tuple) and isinstance(model, ModelKeys) and len(self.eps) != model.layer_count():
            message = f"must have one width for each layer of learning.model, which has {model.layer_count()}"
            yield Problem(f"{at}.eps", message, list(self.eps))
        if form == "printed" and several:
            message = 'must be "relay", "slack" or "derived" for several vehicles: the printed rule has one token'
            yield Problem(f"{at}.variant", message, "printed")


class FedavgKeys(Part):
    kind: Literal["fedavg"] = key("fedavg", "the token becomes the sample-weighted mean of the delivered models")
    fine_tune: bool = key(False, FINE_TUNE)
    token_mean: Share = key(0.0, f"fine_tune: {TOKEN_MEAN}")
    fine_tune_step_size: NotNegative | None = key(None, f"fine_tune: {FINE_TUNE_STEP_SIZE}")

    @classmethod
    def targets(cls) -> tuple[str, ...]:
        """With and without fine-tuning."""
        return (FEDAVG, FINE_TUNED)

    def target(self) -> str:
        """Choose by whether clients fine-tune."""
        return FINE_TUNED if self.fine_tune else FEDAVG

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check that keys of fine-tuning are set only where clients fine-tune."""
        for name, off in (("token_mean", 0.0), ("fine_tune_step_size", None)):
            if not self.fine_tune and getattr(self, name) != off:
                yield Problem(f"{at}.{name}", "needs fine_tune = true", getattr(self, name))


class DittoKeys(Part):
    makes = "learning.algorithms.ditto:Ditto"
    kind: Literal["ditto"] = key("ditto", "FedAvg, and each client's own model beside it, drawn to the token")
    strength: NotNegative = key(1.0, "how strongly a personal model is drawn to the token, λ")


class ApflKeys(Part):
    makes = "learning.algorithms.apfl:APFL"
    kind: Literal["apfl"] = key("apfl", "clients mix their own model with their copy of FedAvg's")
    alpha: Share = key(0.5, "share α of a client's own model in its mixture; where it starts if adaptive")
    adaptive: bool = key(False, "whether each client learns its α")


class PfedmeKeys(Part):
    makes = "learning.algorithms.pfedme:PFedMe"
    kind: Literal["pfedme"] = key("pfedme", "personal models near the token, by Moreau envelopes")
    penalty: Positive = key(15.0, "how strongly a personal model is drawn to the global one, λ")
    outer_step_size: Positive = key(
        0.005, "step size of the global model; learning.step_size is that of the inner steps"
    )
    inner_steps: Count = key(5, "gradient steps towards the personal model, per local step")
    mix: Positive = key(1.0, "how far the token goes to the mean of the delivered models, β")


class PerFedavgKeys(Part):
    makes = "learning.algorithms.per_fedavg:PerFedAvg"
    kind: Literal["per_fedavg"] = key("per_fedavg", "a token from which one gradient step makes a personal model")
    variant: Literal["first_order", "hessian_free"] = key(
        "first_order", "leave the Hessian out, or take a difference of gradients for it"
    )
    adapt_step_size: NotNegative = key(0.01, "step size α of the adaptation to a client")
    delta: Positive = key(0.001, "hessian_free: how far apart the gradients are taken, δ")


class SharedBodyKeys(Part):
    """An algorithm that needs a model with a body and a head."""

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check that the model has both, if that is known before it is built."""
        model: Part = scenario.learning.model
        if isinstance(model, ModelKeys) and model.layer_count() < 2:
            yield Problem(at, TWO_LAYERS, type(self).model_fields["kind"].default)


class FedperKeys(SharedBodyKeys):
    makes = "learning.algorithms.fedper:FedPer"
    kind: Literal["fedper"] = key("fedper", "clients share all layers but the last, which each keeps for itself")


class FedrepKeys(SharedBodyKeys):
    makes = "learning.algorithms.fedrep:FedRep"
    kind: Literal["fedrep"] = key("fedrep", "as fedper, but first the last layer is trained and then the others")
    head_share: Annotated[float, Field(gt=0, lt=1)] = key(
        0.5, "share of learning.local_steps that train the last layer; at least one step for either part"
    )

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check that there is a step for either part."""
        yield from super().rules(at, scenario)
        if scenario.learning.local_steps < 2:
            yield Problem("learning.local_steps", "must be at least 2 for fedrep", scenario.learning.local_steps)


class FedbabuKeys(SharedBodyKeys):
    makes = "learning.algorithms.fedbabu:FedBABU"
    kind: Literal["fedbabu"] = key(
        "fedbabu",
        "FedAvg of all layers but the last, which stays as it was until clients fine-tune at learning.open_at",
    )
    token_mean: Share = key(0.0, TOKEN_MEAN)
    fine_tune_step_size: NotNegative | None = key(None, FINE_TUNE_STEP_SIZE)


class FedrodKeys(Part):
    makes = "learning.algorithms.fedrod:FedRoD"
    kind: Literal["fedrod"] = key("fedrod", "FedAvg on a balanced loss, and a personal last layer added to its own")


class FedalaKeys(Part):
    makes = "learning.algorithms.fedala:FedALA"
    kind: Literal["fedala"] = key("fedala", "clients start from a mixture of their own model and FedAvg's token")
    top_layers: Count = key(1, "how many layers, from the last on, are mixed; the others are the token's")
    weight_steps: Count = key(2, "gradient steps per visit that learn the weights of the mixture")
    weight_step_size: Positive = key(1.0, "step size of these steps")

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check that the model has as many layers, if that is known before it is built."""
        model: Part = scenario.learning.model
        if isinstance(model, ModelKeys) and self.top_layers > model.layer_count():
            message = f"must be at most {model.layer_count()}, the number of layers of learning.model"
            yield Problem(f"{at}.top_layers", message, self.top_layers)


class FeddbeKeys(Part):
    makes = "learning.algorithms.feddbe:FedDBE"
    kind: Literal["feddbe"] = key("feddbe", "FedAvg, with a personal bias of the features and a common mean of them")
    strength: NotNegative = key(5.0, "how strongly the mean of a client's features is drawn to the common mean, κ")
    momentum: Annotated[float, Field(gt=0, le=1)] = key(1.0, "weight of a batch in the mean of a client's features, μ")

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check that the model gives its features, if that is known before it is built."""
        model: Part = scenario.learning.model
        if isinstance(model, ModelKeys) and (not model.represents or model.layer_count() < 2):
            yield Problem(at, FEATURES, self.kind)


class FedexKeys(Part):
    kind: Literal["fedex"] = key(
        "fedex", "FedAvg for training between contacts: what moves the token is what clients have changed since it"
    )
    mode: Literal["sync", "async"] = key(
        "async", "move the token once per round, when the results of all clients are picked up, or with every result"
    )
    patience: Annotated[float, Field(ge=2, allow_inf_nan=True)] = key(
        2.0, "sync: a round also ends when a client hands over its result for this many times in it; inf: it does not"
    )
    staleness: Literal["published"] | NotNegative = key(
        0.75,
        "async: a result moves the token by the share (results handed over since its token was sent)^−staleness; "
        "published: by the client's share of all samples, whatever its age",
    )
    fine_tune: bool = key(False, FINE_TUNE)

    @classmethod
    def targets(cls) -> tuple[str, ...]:
        """Both forms."""
        return tuple(FEDEX.values())

    def target(self) -> str:
        """Choose by mode."""
        return FEDEX[self.mode]

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check that clients train between contacts."""
        clients, learning = scenario.clients, scenario.learning
        if learning.server == "star":
            yield Problem("learning.server", 'must be "vehicle" for fedex, whose clients are visited', learning.server)
        elif clients.training != "between_contacts":
            message = 'must be "between_contacts" for fedex, whose clients hand over at one contact what they were '
            yield Problem("clients.training", f"{message}given at the one before", clients.training)
        for name, mode in (("patience", "sync"), ("staleness", "async")):
            if self.mode != mode and getattr(self, name) != type(self).model_fields[name].default:
                yield Problem(f"{at}.{name}", f'needs mode = "{mode}"', getattr(self, name))


class IfcaKeys(Part):
    makes = "learning.algorithms.clusters:IFCA"
    kind: Literal["ifca"] = key("ifca", "FedAvg with several models; each client takes the one that suits it best")
    clusters: Count = key(8, "how many models")
    fine_tune: bool = key(False, FINE_TUNE)


class SquadOracleKeys(Part):
    makes = "learning.algorithms.clusters:SquadOracle"
    kind: Literal["squad_oracle"] = key("squad_oracle", "FedAvg within each site, as if one knew whose data are alike")
    fine_tune: bool = key(False, FINE_TUNE)


class PooledKeys(Part):
    makes = "learning.algorithms.pooled:Pooled"
    kind: Literal["pooled"] = key("pooled", "one model trained on the samples of all, as if they were in one place")


class WalkmanKeys(Part):
    makes = "learning.algorithms.walkman:Walkman"
    kind: Literal["walkman"] = key("walkman", "consensus ADMM along a random walk; one gradient per visit")
    beta: Positive = key(10.0, "penalty β")
    merge: Merge = key("add_up", MERGE)


class OwnAlgorithm(OwnClass):
    """An algorithm of the user's own."""

    provided = ("task",)


EXCHANGING = (
    RwsadmmKeys, FedavgKeys, DittoKeys, ApflKeys, PfedmeKeys, PerFedavgKeys, FedperKeys, FedrepKeys, FedbabuKeys,
    FedrodKeys, FedalaKeys, FeddbeKeys, FedexKeys, IfcaKeys, SquadOracleKeys, PooledKeys, WalkmanKeys,
)  # fmt: skip
if TYPE_CHECKING:
    Exchanging = Chosen
else:
    Exchanging = one_of("rwsadmm", *EXCHANGING, own=OwnAlgorithm)


class LocalKeys(Part):
    makes = "learning.algorithms.local:Local"
    kind: Literal["local"] = key("local", "training alone, with the contacts and gradient steps of a reference")
    reference: Exchanging = key(
        "rwsadmm", "the algorithm whose contacts and gradient steps it copies; by default the one it replaces"
    )


if TYPE_CHECKING:
    Algorithm = Chosen
else:
    Algorithm = one_of("rwsadmm", *EXCHANGING, LocalKeys, own=OwnAlgorithm)


def keep_reference(learning: Any, replaced: Any) -> None:
    """Let training alone copy the algorithm that it replaces in a scenario, unless it names another."""
    if not isinstance(learning, dict):
        return
    chosen = learning.get("algorithm")
    chosen = {"kind": chosen} if isinstance(chosen, str) else chosen
    if isinstance(chosen, dict) and chosen.get("kind") == "local" and "reference" not in chosen:
        old = replaced.get("kind", "rwsadmm") if isinstance(replaced, dict) else replaced
        if old not in (None, "local"):
            learning["algorithm"] = {**chosen, "reference": replaced}
