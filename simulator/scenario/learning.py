"""Keys of learning: data, model, and the numbers all algorithms share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from fedmule.learning.free_memory import does_not_fit
from fedmule.simulator.errors import Problem
from fedmule.simulator.scenario.algorithms import Algorithm
from fedmule.simulator.scenario.keys import (
    Chosen,
    Count,
    NotNegative,
    OwnClass,
    Part,
    Positive,
    Share,
    key,
    one_of,
    ordered,
)
from fedmule.simulator.scenario.models import Model

if TYPE_CHECKING:
    from fedmule.simulator.scenario import Scenario


NUMBER_BYTES = 4  # features are float32
PRIOR_EXTRA = 0.5  # added to the count of every label with prior = true


class SyntheticDataset(Part):
    makes = "learning.data.synthetic:synthetic"
    kind: Literal["synthetic"] = key("synthetic", "Synthetic(alpha, beta): a linear classifier per client")
    alpha: NotNegative = key(
        0.5, "shift of clients' models, the same for all classes; as published it cancels in the labels"
    )
    beta: NotNegative = key(0.5, "how much clients' features differ")
    features: Count = key(60, "features per sample")
    classes: Annotated[int, Field(ge=2)] = key(10, "classes")
    samples: Annotated[tuple[Annotated[int, Field(ge=3)], Annotated[int, Field(ge=3)]], Field(strict=False)] = key(
        (50, 1000), "fewest and most samples of a client"
    )
    size_factor: Count = key(
        1, "factor on what clients have beyond the fewest, whose median is 54; 5, with samples from 250, as published"
    )
    feature_spread: NotNegative = key(1.0, "spread of clients' features along each of them; 1 as published")
    alike: Share = key(0.0, "share of clients' models that is common to all: 0 nothing, as published, 1 everything")
    alike_at_sites: Share = key(0.0, "further share that is common to the clients of one site, such as a squad")

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check sizes, and that no more than everything is alike."""
        yield from ordered(f"{at}.samples", self.samples)
        if self.alike + self.alike_at_sites > 1:
            message = f"must be at most 1 together with alike = {self.alike:g}"
            yield Problem(f"{at}.alike_at_sites", message, self.alike_at_sites)
        of_each = NUMBER_BYTES * self.features * (self.samples[0] + self.classes)
        if wrong := does_not_fit(scenario.clients.count * of_each):
            yield Problem(at, f"with clients.count = {scenario.clients.count:,} {wrong}", self.kind)

    def needs_sites(self) -> bool:
        """Tell whether sites differ."""
        return self.alike_at_sites > 0


class PublicDataset(Part):
    """A data set that others publish; its card says what it is and where it comes from."""

    kind: str

    def stored(self) -> dict[str, Path]:
        """The data, and the card if it is read with them."""
        from fedmule.learning.data.catalogue import stored

        return stored(self.kind)


class DigitsDataset(PublicDataset):
    makes = "learning.data.public:digits"
    kind: Literal["digits"] = key("digits", "1,797 handwritten digits of 8×8 pixels, in the box")


class SonarDataset(PublicDataset):
    makes = "learning.data.public:sonar"
    kind: Literal["sonar"] = key("sonar", "208 sonar echoes of mines and rocks, in the box")


class MnistDataset(PublicDataset):
    makes = "learning.data.public:mnist"
    kind: Literal["mnist"] = key("mnist", "handwritten digits; fetch once with `fedmule data mnist`")


class FashionMnistDataset(PublicDataset):
    makes = "learning.data.public:fashion_mnist"
    kind: Literal["fashion_mnist"] = key("fashion_mnist", "images of clothing; `fedmule data fashion_mnist`")


class Cifar10Dataset(PublicDataset):
    makes = "learning.data.public:cifar10"
    kind: Literal["cifar10"] = key("cifar10", "small colour images; `fedmule data cifar10`")


class WatchDataset(PublicDataset):
    makes = "learning.data.smartwatch:watch"
    kind: Literal["watch"] = key(
        "watch", "exercises of 20 arms, recorded by a smartwatch; `fedmule data watch` where seglearn is installed"
    )
    blocks: Count = key(
        1,
        "blocks of equal duration into which each recording is cut; the samples of a block are all for training, for "
        "validation or for test; there is one recording of each exercise of an arm",
    )

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check that there are no more clients than arms."""
        from fedmule.learning.data.catalogue import card_of

        arms, clients, learning = card_of(self.kind).clients, scenario.clients.count, scenario.learning
        if arms and clients > arms and learning.partition is None:
            message = f'must be at most {arms}, the number of arms in {at} = "{self.kind}"'
            yield Problem("clients.count", message, clients)


class FileDataset(Part):
    makes = "learning.data.own_file:from_file"
    kind: Literal["file"] = key(
        "file", "your own data: a label column, optionally a client column, numeric features in the others"
    )
    path: str = Field(description="an .npz, .parquet, .csv or .csv.gz file; NAME.card.toml beside it describes it")
    label: str | None = key(None, "the column (in npz: array) of labels; by default the one on the card, or `label`")
    client: str | None = key(
        None, "the column with the client of each sample; by default the one on the card, or `client` if there is one"
    )
    recording: str | None = key(
        None,
        "the column with the recording of each sample, which is not divided between training and test; by default the "
        "one on the card, or `recording` if there is one",
    )

    def files(self) -> dict[str, str]:
        """The data, and their card if they have one."""
        from fedmule.learning.data.card import card_path

        card = card_path(Path(self.path))
        return {"path": self.path} | ({"card": str(card)} if card.is_file() else {})

    def file_problems(self, at: str) -> Iterator[Problem]:
        """Yield a problem if there is no such file, or if it has other columns than its card says."""
        from fedmule.learning.data.own_file import check_header
        from fedmule.learning.errors import DataError

        try:
            check_header(self.path, self.label, self.client, self.recording)
        except DataError as error:
            yield Problem(at, str(error), self.kind)


class LabelsPartition(Part):
    makes = "learning.data.partition:by_labels"
    kind: Literal["labels"] = key("labels", "samples of a few labels each, in unequal numbers")
    labels: Count = key(2, "labels per client")


class DirichletPartition(Part):
    makes = "learning.data.partition:by_dirichlet"
    kind: Literal["dirichlet"] = key("dirichlet", "each label divided by a Dirichlet distribution")
    alpha: Positive = key(0.3, "small: strong skew; large: even")


class PublishedPartition(Part):
    makes = "learning.data.partition:as_published"
    kind: Literal["published"] = key(
        "published", "as the program of the RWSADMM paper divides images: client i has labels i, i + 1, …"
    )
    labels: Count = key(2, "labels per client")


class IidPartition(Part):
    makes = "learning.data.partition:evenly"
    kind: Literal["iid"] = key("iid", "the same number of random samples for everyone")


class ColumnPartition(Part):
    makes = "learning.data.partition:by_column"
    kind: Literal["column"] = key("column", "as the data say")


class OwnDataset(OwnClass):
    """A data set of the user's own."""

    provided = ("clients", "generator", "site")


class OwnPartition(OwnClass):
    """A partition of the user's own."""

    provided = ("samples", "clients", "generator")


if TYPE_CHECKING:
    Dataset = Chosen
else:
    Dataset = one_of(
        "synthetic",
        SyntheticDataset,
        DigitsDataset,
        SonarDataset,
        MnistDataset,
        FashionMnistDataset,
        Cifar10Dataset,
        WatchDataset,
        FileDataset,
        own=OwnDataset,
    )
if TYPE_CHECKING:
    Partition = Chosen
else:
    Partition = one_of(
        "labels",
        LabelsPartition,
        DirichletPartition,
        PublishedPartition,
        IidPartition,
        ColumnPartition,
        own=OwnPartition,
    )


class Learning(Part):
    algorithm: Algorithm = key("rwsadmm", "what is carried from client to client")
    model: Model = key("mlr", "what clients learn")
    dataset: Dataset = key("synthetic", "what they learn from")
    partition: Partition | None = key(
        None, "how samples are divided among clients; by default as the data say, else two labels each"
    )
    partition_over: Literal["clients", "sites"] = key(
        "clients",
        "whether samples are divided among clients or among sites: squads, or else groups of clients that start near "
        "each other; a site's samples are divided evenly among its clients",
    )
    shift: Literal["none", "rotated", "permuted"] = key(
        "none", "how data differ from site to site: images rotated, or labels permuted"
    )
    sites: Count = key(8, "number of sites where clients do not move in squads")
    test_share: Annotated[float, Field(gt=0, lt=1)] = key(0.25, "share of each client's samples kept for testing")
    validation_share: Annotated[float, Field(ge=0, lt=1)] = key(0.0, "share kept for choosing hyper-parameters")
    max_train_samples: Count | None = key(None, "largest number of training samples of a client")
    prior: bool | Positive = key(
        False,
        "add the logarithm of a client's own label frequencies to the scores of its models, in training and in use, "
        f"for clients whose labels differ; true adds {PRIOR_EXTRA:g} to the count of every label, a number adds itself",
    )
    step_size: Positive = key(0.1, "step size η of the gradient steps")
    batch_size: Count = key(20, "samples per gradient step")
    local_steps: Count = key(
        10,
        "steps of a client per visit (walkman, derived, printed: always 1), of one gradient each; of 2 for ditto, apfl "
        "and fedrod, 2 or 4 for per_fedavg, inner_steps for pfedme",
    )
    fit_steps: bool = key(
        False,
        "in a contact in passing a client takes only as many steps as it has time for before the link is expected to "
        "break, from 1 to local_steps",
    )
    open_at: NotNegative = key(
        0.75,
        "rwsadmm slack, fedbabu, and where fine_tune is true: share of the run after which clients train on their own; "
        "1 or more for never",
    )
    payload_bytes: Annotated[int, Field(ge=1, le=10**15)] | None = key(
        None,
        "bytes of one model on the air, those of the network one has in mind while `model` is trained; by default 4 "
        "per parameter of `model`",
    )
    payload_flops_per_sample: Annotated[float, Field(gt=0)] | None = key(
        None,
        "floating-point operations of one sample's share of a gradient step of that network; by default those of "
        "`model`",
    )
    server: Literal["vehicle", "star"] = key(
        "vehicle",
        "who carries the token: the vehicle, or for comparison an ideal server that reaches `active` random clients at "
        "once; each of its rounds counts as a visit",
    )
    active: Literal["all", "visited"] | Count = key(
        "all", "who takes part in a contact: all in range, the visited client, or at most this many"
    )
    evaluate_every: Count = key(20, "visits between evaluations of all clients (token accuracy, L_β, violation)")
    evaluate_contacts: bool = key(
        True,
        "evaluate models after every contact; false: only every `evaluate_every` visits, for large models, which take "
        "longer to evaluate on all their test samples than to train for a visit",
    )
    alone: bool | Count = key(
        True,
        "train clients without any vehicle too, to compare with: as many as cost about a tenth of the run, or this "
        "number at any cost; false: nobody",
    )
    device: Literal["auto", "cpu", "cuda"] = key(
        "auto", "where models and data are kept: auto takes a GPU if there is one"
    )

    @property
    def prior_extra(self) -> float | None:
        """Number that the prior adds to the count of every label; None: there is no prior."""
        return (PRIOR_EXTRA if self.prior else None) if isinstance(self.prior, bool) else self.prior

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check shares, and who can take part."""
        if self.server == "star" and self.active == "visited":
            message = 'must be "all" or a number for server = "star": nobody is visited'
            yield Problem(f"{at}.active", message, "visited")
        if self.fit_steps and scenario.clients.training == "between_contacts":
            message = 'must be false with clients.training = "between_contacts": nobody computes at contacts'
            yield Problem(f"{at}.fit_steps", message, self.fit_steps)
        if self.fit_steps and scenario.clients.contact_list is not None:
            message = (
                "must be false where clients.mobility is a contact list: nobody knows how long a contact will last"
            )
            yield Problem(f"{at}.fit_steps", message, self.fit_steps)
        if self.test_share + self.validation_share >= 1:
            message = f"must be less than 1 together with test_share = {self.test_share:g}, to leave some for training"
            yield Problem(f"{at}.validation_share", message, self.validation_share)
