"""What a scenario file may say of learning: data, model, algorithm and their numbers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag

from fedmule.simulator.scenario.keys import Count, NotNegative, Own, Part, Positive, Share, by_kind, key, short_for

Width = Annotated[float, Field(ge=0, allow_inf_nan=True)]  # of a tube; inf for none


class SyntheticDataset(Part):
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
    feature_spread: NotNegative = key(1.0, "how far apart clients' features lie along each of them; 1 as published")
    alike: Share = key(0.0, "how much of clients' models is the same for all: 0 nothing, as published, 1 everything")
    alike_at_sites: Share = key(0.0, "how much more of them is the same for those at one site, such as a squad")


class MnistDataset(Part):
    kind: Literal["mnist"] = key("mnist", "handwritten digits; fetch once with `fedmule data mnist`")


class FashionMnistDataset(Part):
    kind: Literal["fashion_mnist"] = key("fashion_mnist", "pieces of clothing; `fedmule data fashion_mnist`")


class Cifar10Dataset(Part):
    kind: Literal["cifar10"] = key("cifar10", "small colour pictures; `fedmule data cifar10`")


class FileDataset(Part):
    kind: Literal["file"] = key("file", "your own data: a label, perhaps a client, numbers in the other columns")
    path: str = Field(description="an .npz, .parquet or .csv file")
    label: str = key("label", "the column (in npz: array) of labels")
    client: str | None = key(None, "the column that says whose a sample is; one called client need not be named")


class LabelsPartition(Part):
    kind: Literal["labels"] = key("labels", "samples of a few labels each, in unequal numbers")
    labels: Count = key(2, "labels per client")


class DirichletPartition(Part):
    kind: Literal["dirichlet"] = key("dirichlet", "each label shared out by a Dirichlet law")
    alpha: Positive = key(0.3, "small: strong skew; large: even")


class IidPartition(Part):
    kind: Literal["iid"] = key("iid", "the same number of random samples for everyone")


class ColumnPartition(Part):
    kind: Literal["column"] = key("column", "as the data say")


class MlrModel(Part):
    kind: Literal["mlr"] = key("mlr", "multinomial logistic regression")


class MlpModel(Part):
    kind: Literal["mlp"] = key("mlp", "multilayer perceptron")
    hidden: Annotated[tuple[Count, ...], Field(strict=False)] = key((100, 100), "widths of the hidden layers")


class CnnModel(Part):
    kind: Literal["cnn"] = key("cnn", "two 5×5 convolutions, a layer of 512, dropout 25 % and 50 %; for images")


class Rwsadmm(Part):
    kind: Literal["rwsadmm"] = key("rwsadmm", "random-walk stochastic ADMM")


class Fedavg(Part):
    kind: Literal["fedavg"] = key("fedavg", "the token becomes the sample-weighted mean of the delivered models")


class Ditto(Part):
    kind: Literal["ditto"] = key(
        "ditto", "FedAvg, and beside it a model of each client's own that is drawn to the token"
    )


class Apfl(Part):
    kind: Literal["apfl"] = key("apfl", "clients mix a model of their own with their copy of FedAvg's")


class Pfedme(Part):
    kind: Literal["pfedme"] = key("pfedme", "personal models near the token, by Moreau envelopes")


class PerFedavg(Part):
    kind: Literal["per_fedavg"] = key("per_fedavg", "a token from which one gradient step makes a personal model")


class Ifca(Part):
    kind: Literal["ifca"] = key("ifca", "FedAvg with several models; each client takes the one that suits it best")


class SquadOracle(Part):
    kind: Literal["squad_oracle"] = key("squad_oracle", "FedAvg within each squad, as if one knew whose data are alike")


class Walkman(Part):
    kind: Literal["walkman"] = key("walkman", "consensus ADMM along a random walk")


class Local(Part):
    kind: Literal["local"] = key("local", "training alone, with the contacts and steps of `reference`")


Dataset = Annotated[
    Annotated[SyntheticDataset, Tag("synthetic")]
    | Annotated[MnistDataset, Tag("mnist")]
    | Annotated[FashionMnistDataset, Tag("fashion_mnist")]
    | Annotated[Cifar10Dataset, Tag("cifar10")]
    | Annotated[FileDataset, Tag("file")]
    | Own,
    by_kind,
    short_for("synthetic"),
]
Partition = Annotated[
    Annotated[LabelsPartition, Tag("labels")]
    | Annotated[DirichletPartition, Tag("dirichlet")]
    | Annotated[IidPartition, Tag("iid")]
    | Annotated[ColumnPartition, Tag("column")]
    | Own,
    by_kind,
    short_for("labels"),
]
Model = Annotated[
    Annotated[MlrModel, Tag("mlr")] | Annotated[MlpModel, Tag("mlp")] | Annotated[CnnModel, Tag("cnn")] | Own,
    by_kind,
    short_for("mlr"),
]
Algorithm = Annotated[
    Annotated[Rwsadmm, Tag("rwsadmm")]
    | Annotated[Fedavg, Tag("fedavg")]
    | Annotated[Ditto, Tag("ditto")]
    | Annotated[Apfl, Tag("apfl")]
    | Annotated[Pfedme, Tag("pfedme")]
    | Annotated[PerFedavg, Tag("per_fedavg")]
    | Annotated[Ifca, Tag("ifca")]
    | Annotated[SquadOracle, Tag("squad_oracle")]
    | Annotated[Walkman, Tag("walkman")]
    | Annotated[Local, Tag("local")]
    | Own,
    by_kind,
    short_for("rwsadmm"),
]


class Learning(Part):
    algorithm: Algorithm = key("rwsadmm", "what is carried from client to client")
    reference: Algorithm = key("rwsadmm", "local: the algorithm whose contacts and gradient steps it copies")
    variant: Literal["slack", "derived", "printed"] = key("slack", "rwsadmm: which form of it")
    model: Model = key("mlr", "what clients learn")
    dataset: Dataset = key("synthetic", "what they learn from")
    partition: Partition | None = key(
        None, "whose samples are whose; by default as the data say, or else two labels each"
    )
    partition_over: Literal["clients", "sites"] = key(
        "clients",
        "whom the samples are shared out among; sites are squads, or else groups of clients that start near each "
        "other, and a site's samples are shared evenly by its clients",
    )
    shift: Literal["none", "rotated", "permuted"] = key(
        "none", "how data differ from site to site: images turned, or labels renamed"
    )
    sites: Count = key(8, "how many sites there are where clients do not move in squads")
    test_share: Annotated[float, Field(gt=0, lt=1)] = key(0.25, "share of each client's samples kept for testing")
    validation_share: Annotated[float, Field(ge=0, lt=1)] = key(0.0, "share kept for choosing hyper-parameters")
    max_train_samples: Count | None = key(None, "most training samples of a client, for the few-data regime")
    step_size: Positive = key(0.1, "step size η of the gradient steps")
    batch_size: Count = key(20, "samples per gradient step")
    local_steps: Count = key(
        10,
        "steps of a client per visit (walkman, derived, printed: always 1), of one gradient each; of 2 for ditto and "
        "apfl, 2 or 4 for per_fedavg, pfedme_inner_steps for pfedme",
    )
    beta: Positive | None = key(
        None, "rwsadmm, walkman: penalty β; by default 0.3 for rwsadmm slack, 10 for the other variants and walkman"
    )
    kappa: NotNegative = key(0.5, "rwsadmm: dual step κ")
    kappa_decay: Annotated[float, Field(gt=0, le=1)] | None = key(
        None, "rwsadmm: what κ is multiplied by per visit; by default 1 for slack, 0.99 for the others"
    )
    eps: Width | Annotated[tuple[Width, ...], Field(strict=False, min_length=1)] = key(
        0.0, "rwsadmm: half-width of the tube |x − y| ≤ eps, inf for none; or a list of one for each layer of the model"
    )
    open_at: NotNegative = key(
        0.75, "rwsadmm slack, fine_tune: share of the run after which clients train on their own; 1 or more for never"
    )
    project_on_arrival: bool = key(True, "rwsadmm slack: start each visit inside the tube")
    growing_mean: bool = key(True, "rwsadmm slack: the token is the mean of the clients seen, not of all")
    token_pace: Annotated[float, Field(gt=0, le=1)] | None = key(
        None,
        "rwsadmm: the token goes this share of the way to the mean of the delivered contributions; by default it is "
        "the mean of all clients' last ones",
    )
    merge: Literal["add_up", "average"] = key(
        "add_up",
        "rwsadmm slack and derived, walkman: what vehicles that meet make of their tokens; their changes add up, or "
        "each counts vehicle.count times and the tokens are averaged. Other algorithms average",
    )
    token: Literal["global", "neighbourhood"] = key(
        "global", "rwsadmm slack: one token for all, or each client's own, drawn to what its neighbours contributed"
    )
    rho: Literal["cv", "eb"] | Share = key(
        "cv",
        "neighbourhood: its share ρ in a client's token; chosen by clients that try it out (cv), from the spread of "
        "contributions (eb), or fixed",
    )
    ifca_clusters: Count = key(8, "ifca: how many models")
    fine_tune: bool = key(
        False, "fedavg, ifca, squad_oracle: from open_at on clients take the token once more and train on their own"
    )
    ditto_lambda: NotNegative = key(1.0, "ditto: how strongly a personal model is drawn to the token, λ")
    apfl_alpha: Share = key(0.5, "apfl: share α of a client's own model in its mixture; where it starts if adaptive")
    apfl_adaptive: bool = key(False, "apfl: whether each client learns its α")
    pfedme_lambda: Positive = key(15.0, "pfedme: how strongly a personal model is drawn to the global one, λ")
    pfedme_step_size: Positive = key(0.005, "pfedme: step size of the global model; step_size is that of inner steps")
    pfedme_inner_steps: Count = key(5, "pfedme: gradient steps towards the personal model, per local step")
    pfedme_mix: Positive = key(1.0, "pfedme: how far the token goes to the mean of the delivered, β")
    per_fedavg_step_size: NotNegative = key(0.01, "per_fedavg: step size α of the adaptation to a client")
    per_fedavg_variant: Literal["first_order", "hessian_free"] = key(
        "first_order", "per_fedavg: leave the Hessian out, or take a difference of gradients for it"
    )
    per_fedavg_delta: Positive = key(0.001, "per_fedavg hessian_free: how far apart the gradients are taken, δ")
    server: Literal["vehicle", "star"] = key(
        "vehicle",
        "who carries the token: the vehicle, or for comparison an ideal server that reaches `active` random clients at "
        "once; each of its rounds counts as a visit",
    )
    active: Literal["all", "visited"] | Count = key(
        "all", "who takes part in a contact: all in range, the visited client, or at most this many"
    )
    evaluate_every: Count = key(20, "visits between looks at all clients (token accuracy, L_β, violation)")
    evaluate_contacts: bool = key(
        True,
        "judge models after every contact; false: only every `evaluate_every` visits, for large models, which take "
        "longer to judge on all their test samples than to train for a visit",
    )
    device: Literal["auto", "cpu", "cuda"] = key("auto", "where the numbers are: auto takes a GPU if there is one")
