"""Every column of a run's tables and of its summary: type, unit, label and meaning, in one place.

The rows below are what the simulator logs. The files' schemas, docs/columns.md, the labels of axes and pages, and the
list of values that go into the summary are made from them. To add a column, add a line here and a value where the row
is made, then write the page again with `python -m fedmule.simulator.runs.columns_page docs/columns.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypedDict, get_type_hints

import numpy as np
from numpy.typing import NDArray

from fedmule.simulator.runs.column_kinds import (
    BYTES,
    BYTES_DOWN,
    BYTES_UP,
    COUNT,
    GAIN,
    HOST_TIME,
    HOURLY,
    IDS,
    LAST,
    METRES,
    OVERVIEW,
    PERCENT,
    REAL,
    REALS,
    SECONDS,
    SHARE,
    SIM_TIME,
    STEPS,
    TEXT,
    TRUTH,
    Column,
)
from fedmule.simulator.runs.ending import Ending

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

StopReason = Literal[
    "visits", "sim_time_s", "total_bytes", "nothing_sent", "accuracy", "interrupted", "diverged", "nobody_reached"
]


PAYLOAD = BYTES("of one model on the air: `learning.payload_bytes`, or else those of the trained model")


@dataclass(frozen=True, kw_only=True)
class ContactRow:
    """contacts: a row per visit, and per contact in passing."""

    contact: Annotated[int, COUNT("1, 2, … of all vehicles together, in the order in which contacts ended")]
    visit: Annotated[int, COUNT("visits of all vehicles so far, this one included if it is one")]
    in_passing: Annotated[bool, Column(TRUTH, "whether the vehicle served the client in passing; false: at a visit")]
    client: Annotated[
        int | None,
        COUNT(
            "the client visited or served in passing; null, like the vehicle, for a round of an ideal server "
            '(`server = "star"`)'
        ),
    ]
    sim_time_s: Annotated[float, SIM_TIME("when the contact ended")]
    host_time_s: Annotated[
        float, HOST_TIME("time on this computer since the run began; a resumed run continues from its checkpoint")
    ]
    vehicle: Annotated[int | None, COUNT("the vehicle: 0, 1, …")]
    vehicle_x_m: Annotated[
        float | None, METRES("where it stood during a visit, or was when a contact in passing began")
    ]
    vehicle_y_m: Annotated[
        float | None, METRES("where it stood during a visit, or was when a contact in passing began")
    ]
    travel_s: Annotated[
        float,
        HOURLY(
            "time since this vehicle's last visit ended, meetings included; 0 in passing",
            label="driving time",
            summary="total",
        ),
    ]
    contact_s: Annotated[float, SECONDS("from the beginning to the end of the exchange")]
    airtime_s: Annotated[float, SECONDS("time in which the channel was busy", label="airtime", summary="total")]
    compute_s: Annotated[float, SECONDS("the longest computation of a client")]
    missed: Annotated[
        int,
        COUNT("clients not reached by this vehicle since its last visit", label="clients not reached", summary="total"),
    ]
    neighbours: Annotated[int, COUNT("clients in range of the vehicle, the visited one included")]
    active: Annotated[
        int,
        COUNT("how many of them were asked to take part: none that is busy with another vehicle", summary="total"),
    ]
    delivered: Annotated[int, COUNT("how many of those asked completed the exchange", summary="total")]
    active_ids: Annotated[IntArray, Column(IDS, "who was asked to take part")]
    delivered_ids: Annotated[IntArray, Column(IDS, "who completed the exchange")]
    bytes_down: Annotated[
        int, BYTES_DOWN("sent by the vehicle, lost bytes included; a broadcast counts once", summary="total")
    ]
    bytes_up: Annotated[int, BYTES_UP("sent by clients, lost bytes included", summary="total")]
    bytes_between: Annotated[
        int,
        BYTES("sent by vehicles to each other since the last row", label="bytes between vehicles", summary="total"),
    ]
    payload_bytes: Annotated[int, PAYLOAD]
    gradient_steps: Annotated[
        int,
        STEPS(
            'gradients computed by all delivered clients together; with `clients.training = "between_contacts"` those '
            "whose results count",
            summary="total",
        ),
    ]
    age_s: Annotated[
        float | None,
        SECONDS(
            "how long before the end of this contact the tokens were sent that the results handed over started from, "
            "mean over clients; null where no result was handed over",
            label="age of results",
        ),
    ] = None
    personal_test_acc_mean: Annotated[
        float | None,
        SHARE(
            "test accuracy of personal models, mean over clients; with `learning.evaluate_contacts = false` this and "
            "the next two are null where values marked * are",
            label="personal test accuracy",
            summary="last",
        ),
    ] = None
    personal_test_acc_weighted: Annotated[
        float | None,
        SHARE("the same, mean over test samples", label="personal test accuracy, by samples", summary="last"),
    ] = None
    personal_validation_acc_mean: Annotated[
        float | None,
        SHARE(
            "accuracy on the validation part, for choosing hyper-parameters; null where there is none",
            label="personal validation accuracy",
            summary="last",
        ),
    ] = None
    token_test_acc: Annotated[
        float | None,
        SHARE(
            "test accuracy of the token, mean over clients",
            label="token test accuracy",
            summary="last",
            all_clients=True,
        ),
    ] = None
    alone_test_acc_mean: Annotated[
        float | None,
        SHARE(
            "test accuracy of the models that clients would have by now without any vehicle, mean over those clients "
            "that train alone too",
            label="test accuracy of training alone",
            summary="last",
            all_clients=True,
        ),
    ] = None
    train_loss: Annotated[
        float | None,
        LAST(
            "mean minibatch loss of the contact, of personal models where clients train two (per_fedavg: after "
            "adaptation)",
            label="training loss",
        ),
    ] = None
    violation_max: Annotated[
        float | None,
        OVERVIEW("largest violation of |x − y| ≤ eps over all clients and coordinates", label="largest violation"),
    ] = None
    violation_rms: Annotated[
        float | None, OVERVIEW("root mean square of the same violations", label="rms violation")
    ] = None
    violated_share: Annotated[
        float | None,
        OVERVIEW(
            "share of coordinates outside the tube", unit="share", label="coordinates outside the tube", scale=PERCENT
        ),
    ] = None
    dual_norm: Annotated[float | None, OVERVIEW("norm of all clients' duals", label="norm of all duals")] = None
    lagrangian: Annotated[float | None, OVERVIEW("the augmented Lagrangian L_β", label="Lagrangian")] = None
    lyapunov: Annotated[
        float | None,
        OVERVIEW(
            "M_β = L_β + L² × the mean of |Δx|² at each client's last update; null where L is not known",
            label="Lyapunov function",
        ),
    ] = None
    token_step_norm: Annotated[float | None, LAST("how far the token moved", label="step of the token")] = None
    kappa: Annotated[float | None, LAST("the dual step used", label="dual step κ")] = None
    delivered_test_acc: Annotated[
        FloatArray | None,
        Column(
            REALS,
            "test accuracy of the personal model of each client in `delivered_ids` after the contact; null where "
            "`personal_test_acc_mean` is",
            unit="share",
            scale=PERCENT,
        ),
    ] = None


@dataclass(frozen=True)
class ClientRows:
    """clients: a row per client per evaluation. Arrays [n], clients ascending."""

    contact: Annotated[IntArray, COUNT("the contact after which clients were evaluated; 0: before the first")]
    visit: Annotated[IntArray, COUNT("visits of all vehicles so far")]
    sim_time_s: Annotated[FloatArray, SIM_TIME("when it ended")]
    client: Annotated[IntArray, COUNT("the client")]
    group: Annotated[Sequence[str], Column(TEXT, "name or number of its group; empty without `clients.groups`")]
    site: Annotated[
        IntArray | None, COUNT("the site it belongs to now, such as its squad: 0, 1, …; null where sites do not matter")
    ]
    test_acc: Annotated[FloatArray, SHARE("test accuracy of its personal model on its own test data")]
    token_test_acc: Annotated[
        FloatArray, SHARE("of the token on the same data: what the client would get from the vehicle now")
    ]
    alone_test_acc: Annotated[
        FloatArray, SHARE("of the model it would have by now without any vehicle; null if it does not train alone")
    ]
    test_samples: Annotated[IntArray, COUNT("how many samples these are")]
    visits: Annotated[IntArray, COUNT("times a vehicle came to this client")]
    participations: Annotated[IntArray, COUNT("exchanges that it completed, at its own visits and at its neighbours'")]
    gradient_steps: Annotated[IntArray, COUNT("gradients it has computed so far")]
    bytes_down: Annotated[IntArray, BYTES_DOWN("received by this client so far")]
    bytes_up: Annotated[IntArray, BYTES_UP("sent by this client so far")]


@dataclass(frozen=True)
class TrackRows:
    """track: waypoints. Arrays [k]."""

    sim_time_s: Annotated[FloatArray, SIM_TIME("when it was there")]
    node: Annotated[Sequence[str], Column(TEXT, "`vehicle` or `client`")]
    id: Annotated[IntArray, COUNT("the client, or the number of the vehicle")]
    x_m: Annotated[FloatArray, METRES("where it was; null: not there from now on")]
    y_m: Annotated[FloatArray, METRES("where it was; null: not there from now on")]


@dataclass(frozen=True)
class GraphRows:
    """graph: edges of the contact graph at snapshots. Arrays [k]."""

    visit: Annotated[IntArray, COUNT("the visit after which the snapshot was taken")]
    sim_time_s: Annotated[FloatArray, SIM_TIME("when it was taken")]
    a: Annotated[IntArray, COUNT("a client")]
    b: Annotated[IntArray, COUNT("another that could hear it; the same client: nobody could")]


@dataclass(frozen=True)
class MeetingRow:
    """meetings: a row per meeting of two vehicles."""

    meeting: Annotated[int, COUNT("1, 2, …")]
    sim_time_s: Annotated[float, SIM_TIME("when it ended, or broke")]
    visits: Annotated[int, COUNT("visits of all vehicles so far")]
    a: Annotated[int, COUNT("one vehicle, the lower number")]
    b: Annotated[int, COUNT("the other vehicle")]
    a_x_m: Annotated[float | None, METRES("where vehicle `a` was when it began; null: no positions are known")]
    a_y_m: Annotated[float | None, METRES("where vehicle `a` was when it began; null: no positions are known")]
    b_x_m: Annotated[float | None, METRES("where vehicle `b` was when it began; null: no positions are known")]
    b_y_m: Annotated[float | None, METRES("where vehicle `b` was when it began; null: no positions are known")]
    meeting_s: Annotated[float, SECONDS("from coming into range to the end")]
    airtime_s: Annotated[float, SECONDS("time in which the channel was busy")]
    bytes: Annotated[int, BYTES("on the air, both ways, lost bytes included")]
    delivered: Annotated[bool, Column(TRUTH, "whether both got what the other carries; otherwise nothing has changed")]


class TimeSpent(TypedDict):
    """How vehicles spent their time, all together; null with an ideal server."""

    driven_s: Annotated[
        float | None,
        SECONDS(
            "time in which vehicles were in motion, all together; null, like the next five, with an ideal server",
            label="time in motion",
        ),
    ]
    driven_m: Annotated[float | None, METRES("the way they drove", label="way driven")]
    visits_s: Annotated[float | None, SECONDS("time of visits", label="time of visits")]
    visits_setup_s: Annotated[float | None, SECONDS("of it: setting up links", label="setting up links at visits")]
    visits_airtime_s: Annotated[float | None, SECONDS("of it: the channel was busy", label="airtime of visits")]
    stood_s: Annotated[
        float | None,
        SECONDS(
            "time in which they stood between visits: for contacts in passing to end, a client to come, or each other",
            label="time standing between visits",
        ),
    ]


class _Totals(TypedDict):
    """The summary without the values that are simply the last ones of contacts."""

    name: Annotated[str, Column(TEXT, "the scenario's name")]
    algorithm: Annotated[str, Column(TEXT, "`learning.algorithm`")]
    seed: Annotated[int, COUNT("the seed")]
    finished: Annotated[bool, Column(TRUTH, "false if the run was interrupted")]
    ending: Annotated[
        Ending,
        Column(
            TEXT,
            "`done`, `diverged`, `interrupted`, or `learnt nothing` if not one gradient step reached the vehicle; "
            "means are over runs that are done",
        ),
    ]
    stopped_by: Annotated[StopReason | None, Column(TEXT, "which limit or event ended the run, see below")]
    divergence: Annotated[
        str | None, Column(TEXT, "where the models diverged and the likely reason, in words; null where they did not")
    ]
    clients: Annotated[int, COUNT("how many clients there are")]
    contacts: Annotated[int, COUNT("visits and contacts in passing")]
    visits: Annotated[int, COUNT("visits of all vehicles together")]
    clients_visited: Annotated[int, COUNT("clients visited at least once")]
    clients_reached: Annotated[int, COUNT("clients that completed at least one exchange")]
    missed: int
    meetings: Annotated[int, COUNT("meetings of two vehicles")]
    meetings_delivered: Annotated[int, COUNT("meetings at which both tokens got through")]
    sim_time_s: Annotated[float, SIM_TIME("when the run ended")]
    host_time_s: Annotated[float, HOST_TIME("time on this computer; of a resumed run, of all its parts")]
    travel_s: float
    airtime_s: float
    bytes_down: int
    bytes_up: int
    bytes_between: int
    reports: Annotated[int, COUNT("reports of their positions that clients sent by satellite, lost ones included")]
    reports_lost: Annotated[int, COUNT("how many of them never arrive")]
    report_bytes: Annotated[
        int, BYTES("of all these reports; no part of any other count of bytes", label="bytes of position reports")
    ]
    payload_bytes: Annotated[int, PAYLOAD]
    payload_flops_per_sample: Annotated[
        float | None,
        Column(REAL, "`learning.payload_flops_per_sample`; null where computing costs what the trained model costs"),
    ]
    trained_bytes: Annotated[int, BYTES("of the parameters that were trained; other than `payload_bytes`: a stand-in")]
    prior: Annotated[
        float | None,
        Column(REAL, "what `learning.prior` adds to the count of every label; null without a prior"),
    ]
    clients_own_labels: Annotated[
        int | None,
        COUNT("how many clients added their own labels to the token they took; null where no algorithm does so"),
    ]
    active: int
    delivered: int
    gradient_steps: int
    beta: Annotated[float | None, Column(REAL, "the penalty β used; null where there is no constraint")]
    smoothness: Annotated[
        float | None, Column(REAL, "L of the clients' losses; null where there is no constraint or L is not known")
    ]
    start_personal_test_acc_mean: Annotated[
        float,
        SHARE("`personal_test_acc_mean` before the first visit", label="personal test accuracy at the start"),
    ]
    personal_test_acc_mean: float
    personal_test_acc_weighted: float
    personal_validation_acc_mean: float | None
    late_token_test_acc: Annotated[
        float | None,
        SHARE(
            "of clients that joined late (`clients.late`): the token's test accuracy when they joined",
            label="token test accuracy of late clients",
        ),
    ]
    late_personal_test_acc: Annotated[
        float | None,
        SHARE(
            "of clients that joined late: their personal models' test accuracy at the end",
            label="personal test accuracy of late clients",
        ),
    ]


class LastValues(TypedDict):
    """Columns of contacts whose last value that is not null goes into the summary as it is."""

    token_test_acc: float | None
    alone_test_acc_mean: float | None
    train_loss: float | None
    violation_max: float | None
    violation_rms: float | None
    violated_share: float | None
    dual_norm: float | None
    lagrangian: float | None
    lyapunov: float | None
    token_step_norm: float | None
    kappa: float | None


class OverAlone(TypedDict):
    """The run compared with training alone, at its end; null if nobody trains alone."""

    alone_clients: Annotated[int, COUNT("how many clients train alone too: all of them, or a random sample")]
    gain_over_alone: Annotated[
        float | None,
        GAIN(
            "test accuracy of personal models − that of training alone, mean over these clients",
            label="gain over training alone",
        ),
    ]
    gain_over_alone_half_width: Annotated[
        float | None,
        GAIN(
            "half-width of its 95 % interval over clients (Student's t); null for a single one",
            label="half-width of the gain's interval",
        ),
    ]
    clients_better_off: Annotated[int, COUNT("how many of them have a more accurate personal model")]
    clients_worse_off: Annotated[int, COUNT("how many of them have a less accurate one")]
    clients_alone: Annotated[
        int | None, COUNT("how many clients chose training alone over the token; null where they have no choice")
    ]
    verdict: Annotated[str | None, Column(TEXT, "the comparison in a sentence")]


class Summary(_Totals, TimeSpent, LastValues, OverAlone):
    """summary.json: how the run ended; other keys are totals or last values of a column of contacts."""


def _columns(record: type, default: dict[str, Column]) -> tuple[Column, ...]:
    """The columns of a record, in order."""
    found = []
    for name, hint in get_type_hints(record, include_extras=True).items():
        (column,) = getattr(hint, "__metadata__", None) or (default[name],)
        found.append(replace(column, name=name))
    return tuple(found)


RECORDS = {
    "contacts": ContactRow, "clients": ClientRows, "track": TrackRows, "graph": GraphRows, "meetings": MeetingRow
}  # fmt: skip
TABLES: dict[str, tuple[Column, ...]] = {name: _columns(record, {}) for name, record in RECORDS.items()}
CONTACTS = {column.name: column for column in TABLES["contacts"]}
SUMMARY: tuple[Column, ...] = _columns(Summary, CONTACTS)

# Results that follow from others, for pictures and pages.
DERIVED = (
    BYTES("all bytes: to and from clients and between vehicles", label="bytes on the air", name="bytes"),
    SHARE("delivered / active", label="exchanges completed", name="delivered_share"),
)  # fmt: skip

# What a picture can show, by name.
QUANTITIES = CONTACTS | {column.name: column for column in (*SUMMARY, *DERIVED)}
