"""What a scenario file may say: every key with its default, unit and meaning. The one place they are defined."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Point = Annotated[tuple[float, float], Field(strict=False)]
Span = Annotated[tuple[NotNegative, NotNegative], Field(strict=False)]
PositiveSpan = Annotated[tuple[Positive, Positive], Field(strict=False)]
Ring = Annotated[tuple[Point, ...], Field(strict=False, min_length=3)]

DEFAULT_VISITS = 300
MOST_VISITS = 10_000  # where only bytes or accuracy would end the run: they may never be reached
OWN_CLASS = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"


def key(default: Any, meaning: str, **limits: Any) -> Any:
    """A key of a scenario file."""
    return Field(default=default, description=meaning, **limits)


class Part(BaseModel):
    """A table of a scenario file: frozen, strict about types, no unknown keys, no NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=True)


class OwnClass(Part):
    """A class of the user's own, as "package.module:Class"; the other keys of its table are its arguments."""

    model_config = ConfigDict(extra="allow")
    kind: Annotated[str, Field(pattern=OWN_CLASS)]


def _kind_of(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return "own" if isinstance(kind, str) and ":" in kind else str(kind)


by_kind = Discriminator(_kind_of)  # `kind` chooses the variant, or names a class of the user's own
Own = Annotated[OwnClass, Tag("own")]


def short_for(default: str) -> BeforeValidator:
    """A plain string stands for a table with that kind; a table without a kind has the default one."""

    def expand(value: Any) -> Any:
        if isinstance(value, str):
            return {"kind": value}
        return {"kind": default, **value} if isinstance(value, dict) else value

    return BeforeValidator(expand)


# --- terrain -----------------------------------------------------------------------------------------------


class Obstacle(Part):
    polygon: Ring = Field(description="corners [[x, y], …] in metres")
    holes: Annotated[tuple[Ring, ...], Field(strict=False)] = key((), "open courts inside it, as rings of corners")
    stops_movement: bool = key(True, "whether vehicle and clients must go round it")
    radio_loss_db: NotNegative = key(0.0, "what a radio ray that crosses it loses, dB")
    name: str = key("", "what it is called")


class Surface(Part):
    polygon: Ring = Field(description="corners [[x, y], …] in metres")
    speed_factor: Positive = Field(description="how many times as fast one moves on it")
    name: str = key("", "what it is called")


class Terrain(Part):
    size_m: Annotated[tuple[Positive, Positive], Field(strict=False)] = key(
        (1000.0, 1000.0), "width and height; the corner at (0, 0) is the south-west one"
    )
    obstacles: Annotated[tuple[Obstacle, ...], Field(strict=False)] = key(
        (), 'tables, or files as { geojson = "town.geojson", coordinates = "metres" }'
    )
    surfaces: Annotated[tuple[Surface, ...], Field(strict=False)] = key(
        (), "tables, or GeoJSON files likewise; where they overlap the last one counts"
    )


# --- vehicle and clients -----------------------------------------------------------------------------------


class Vehicle(Part):
    speed_mps: Positive = key(10.0, "driving speed, m/s")
    start: Point | None = key(None, "where it starts; by default the open place nearest the middle")
    approach_m: Annotated[float, Field(ge=0.1)] = key(5.0, "how near it drives to the client it visits")
    give_up_s: Positive = key(900.0, "how long it chases one client before it turns to another")
    walk: Literal["degree", "metropolis", "lazy"] = key("degree", "rule for P(k): where to drive next")
    jump: Share = key(0.1, "probability of driving to any client at random instead of a neighbour")


class StaticMobility(Part):
    kind: Literal["static"] = key("static", "nobody moves")
    places: Annotated[tuple[Point, ...], Field(strict=False)] = key(
        (), "one [x, y] per client; by default random on open ground"
    )


class WaypointMobility(Part):
    kind: Literal["waypoint"] = key("waypoint", "random waypoint: walk to a random place, pause, go on")
    speed_mps: PositiveSpan = key((0.5, 1.5), "lowest and highest walking speed, m/s")
    pause_s: Span = key((0.0, 60.0), "shortest and longest pause, s")


class SquadsMobility(Part):
    kind: Literal["squads"] = key("squads", "groups that move together with a leader")
    squads: Count = key(5, "how many groups; clients are shared out equally")
    spread_m: Positive = key(20.0, "how far from the leader the others stand, m")
    speed_mps: PositiveSpan = key((0.5, 1.5), "lowest and highest walking speed, m/s")
    pause_s: Span = key((60.0, 300.0), "shortest and longest pause between moves, s")


class PlacedAnewMobility(Part):
    kind: Literal["placed_anew"] = key("placed_anew", "random places, drawn anew every few visits, all connected")
    every_visits: Count = key(10, "visits until everyone is placed anew")
    neighbours: Annotated[int, Field(ge=0)] = key(5, "neighbours everyone has at least")
    neighbour_range_m: Positive = key(100.0, "how near a neighbour is, m")


Mobility = Annotated[
    Annotated[StaticMobility, Tag("static")]
    | Annotated[WaypointMobility, Tag("waypoint")]
    | Annotated[SquadsMobility, Tag("squads")]
    | Annotated[PlacedAnewMobility, Tag("placed_anew")]
    | Own,
    by_kind,
    short_for("squads"),
]


class Clients(Part):
    count: Count = key(20, "how many clients there are")
    mobility: Mobility = key("squads", "how they move")
    report_period_s: Positive = key(10.0, "time between satellite reports of their places, s")
    report_error_m: NotNegative = key(2.0, "standard deviation of a reported place along each axis, m")
    compute_flops_per_s: Positive = key(1e9, "floating-point operations per second of a client's device")


# --- radio -------------------------------------------------------------------------------------------------


class DiscRadio(Part):
    kind: Literal["disc"] = key("disc", "one rate within a range, nothing beyond or through a lossy obstacle")
    range_m: Positive = key(100.0, "how far it reaches, m")
    rate_mbps: Positive = key(10.0, "useful rate, Mb/s")
    latency_s: NotNegative = key(0.01, "from last byte sent to last byte usable, s")
    setup_s: NotNegative = key(0.0, "time before the first byte of a contact, s")


class WifiDirectRadio(Part):
    kind: Literal["wifi_direct"] = key("wifi_direct", "802.11n, 20 MHz at 2.4 GHz, one stream, log-distance loss")
    range_m: Annotated[float, Field(ge=1)] | None = key(
        None, "sets the transmit power so that a free link just closes here, m"
    )
    tx_power_dbm: float = key(16.0, "transmit power where range_m is not given, dBm")
    exponent: Positive = key(3.0, "path-loss exponent")
    reference_loss_db: float = key(46.6777, "path loss at 1 m, dB")
    cutoff_dbm: float = key(-82.0, "weakest signal that is heard, dBm")
    setup_s: NotNegative = key(3.0, "forming the group before the first byte of a contact, s")
    latency_s: NotNegative = key(0.002, "from last byte sent to last byte usable, s")


Radio = Annotated[
    Annotated[DiscRadio, Tag("disc")] | Annotated[WifiDirectRadio, Tag("wifi_direct")] | Own,
    by_kind,
    short_for("wifi_direct"),
]


# --- learning ----------------------------------------------------------------------------------------------


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
    client: str | None = key(None, "the column that says whose a sample is, if there is one")


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
    | Annotated[Walkman, Tag("walkman")]
    | Annotated[Local, Tag("local")]
    | Own,
    by_kind,
    short_for("rwsadmm"),
]
Reference = Annotated[
    Annotated[Rwsadmm, Tag("rwsadmm")]
    | Annotated[Fedavg, Tag("fedavg")]
    | Annotated[Ditto, Tag("ditto")]
    | Annotated[Apfl, Tag("apfl")]
    | Annotated[Pfedme, Tag("pfedme")]
    | Annotated[PerFedavg, Tag("per_fedavg")]
    | Annotated[Walkman, Tag("walkman")]
    | Own,
    by_kind,
    short_for("rwsadmm"),
]


class Learning(Part):
    algorithm: Algorithm = key("rwsadmm", "what is carried from client to client")
    reference: Reference = key("rwsadmm", "local: the algorithm whose contacts and gradient steps it copies")
    variant: Literal["slack", "derived", "printed"] = key("slack", "rwsadmm: which form of it")
    model: Model = key("mlr", "what clients learn")
    dataset: Dataset = key("synthetic", "what they learn from")
    partition: Partition | None = key(
        None, "whose samples are whose; by default as the data say, or else two labels each"
    )
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
    beta: Positive = key(1.0, "rwsadmm, walkman: penalty β")
    kappa: NotNegative = key(0.5, "rwsadmm: dual step κ")
    kappa_decay: Annotated[float, Field(gt=0, le=1)] | None = key(
        None, "rwsadmm: what κ is multiplied by per visit; by default 1 for slack, 0.99 for the others"
    )
    eps: Annotated[float, Field(ge=0, allow_inf_nan=True)] = key(
        0.0, "rwsadmm: half-width of the tube |x − y| ≤ eps; inf for none"
    )
    open_at: NotNegative = key(
        0.75, "rwsadmm slack, fine_tune: share of the run after which clients train on their own; 1 or more for never"
    )
    project_on_arrival: bool = key(True, "rwsadmm slack: start each visit inside the tube")
    growing_mean: bool = key(True, "rwsadmm slack: the token is the mean of the clients seen, not of all")
    fine_tune: bool = key(False, "fedavg: from open_at on clients take the token once more and train on their own")
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
    active: Literal["all", "visited"] | Count = key(
        "all", "who takes part in a contact: all in range, the visited client, or at most this many"
    )
    evaluate_every: Count = key(20, "visits between looks at all clients (token accuracy, L_β, violation)")
    device: Literal["auto", "cpu", "cuda"] = key("auto", "where the numbers are: auto takes a GPU if there is one")


class Stop(Part):
    visits: Count | None = key(
        None,
        f"stop after this many visits; by default {DEFAULT_VISITS}, or {MOST_VISITS} beside other limits than time",
    )
    sim_time_s: Positive | None = key(None, "stop at this simulated time, s")
    total_bytes: Count | None = key(None, "stop when this many bytes were on the air")
    accuracy: Share | None = key(None, "stop when personal_test_acc_mean reaches this")

    @model_validator(mode="before")
    @classmethod
    def _always_end(cls, value: Any) -> Any:
        if not isinstance(value, dict) or {"visits", "sim_time_s"} & set(value):
            return value
        return {**value, "visits": MOST_VISITS if value else DEFAULT_VISITS}


class Log(Part):
    track: bool = key(True, "whether to log the movement of vehicle and clients")
    graph_every: Annotated[int, Field(ge=0)] = key(20, "visits between snapshots of the contact graph; 0 for none")


class Scenario(Part):
    """A whole scenario; everything has a default, so an empty file is valid."""

    name: Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*$")] = key(
        "", "what the run is called; by default the file's name"
    )
    seed: Annotated[int, Field(ge=0)] = key(0, "same seed, same bits")
    terrain: Terrain = key(Terrain(), "the ground")
    vehicle: Vehicle = key(Vehicle(), "the mule that carries the token")
    clients: Clients = key(Clients(), "the devices it visits")
    radio: Radio = key("wifi_direct", "what they talk with")
    learning: Learning = key(Learning(), "what they learn and how")
    stop: Stop = key(Stop(), "when the run ends: at whichever comes first")
    log: Log = key(Log(), "what is written down beside the contacts")
