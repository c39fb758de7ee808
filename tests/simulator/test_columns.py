"""The table of columns: what is logged, documented and shown is what it says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args, get_type_hints

import pyarrow as pa
import pytest

from fedmule.analysis.plots.words import axis_of, scale_of
from fedmule.analysis.replay.study_page import RESULTS
from fedmule.simulator.runs import columns
from fedmule.simulator.runs.columns import CONTACTS, QUANTITIES, RECORDS, SUMMARY, TABLES, FloatArray, IntArray
from fedmule.simulator.runs.columns_page import with_tables
from fedmule.simulator.runs.progress import WHY
from fedmule.simulator.runs.tables import SCHEMAS

PAGE = Path(__file__).parents[2] / "docs" / "columns.md"

# Names, types and order of the tables that scripts read: a contract.
INTEGER, REAL, TEXT = ("int64", "double", "string")
CONTRACT = {
    "contacts": {
        **{"contact": INTEGER, "visit": INTEGER, "in_passing": "bool", "client": INTEGER},
        **{"sim_time_s": REAL, "host_time_s": REAL, "vehicle": INTEGER},
        **{"vehicle_x_m": REAL, "vehicle_y_m": REAL, "travel_s": REAL, "contact_s": REAL, "airtime_s": REAL},
        **{"compute_s": REAL, "missed": INTEGER, "neighbours": INTEGER, "active": INTEGER, "delivered": INTEGER},
        **{"active_ids": "list<item: int32>", "delivered_ids": "list<item: int32>"},
        **dict.fromkeys(("bytes_down", "bytes_up", "bytes_between", "payload_bytes", "gradient_steps"), INTEGER),
        "age_s": REAL,
        **dict.fromkeys(("personal_test_acc_mean", "personal_test_acc_weighted"), REAL),
        **dict.fromkeys(("personal_validation_acc_mean", "token_test_acc", "alone_test_acc_mean"), REAL),
        **dict.fromkeys(("train_loss", "violation_max"), REAL),
        **dict.fromkeys(("violation_rms", "violated_share", "dual_norm", "lagrangian", "lyapunov"), REAL),
        **dict.fromkeys(("token_step_norm", "kappa"), REAL),
        "delivered_test_acc": "list<item: double>",
    },
    "clients": {
        **{"contact": INTEGER, "visit": INTEGER, "sim_time_s": REAL, "client": INTEGER, "group": TEXT},
        "site": INTEGER,
        **{"test_acc": REAL, "token_test_acc": REAL},
        **{"alone_test_acc": REAL},
        **dict.fromkeys(("test_samples", "visits", "participations", "gradient_steps"), INTEGER),
        **{"bytes_down": INTEGER, "bytes_up": INTEGER},
    },
    "track": {"sim_time_s": REAL, "node": TEXT, "id": INTEGER, "x_m": REAL, "y_m": REAL},
    "graph": {"visit": INTEGER, "sim_time_s": REAL, "a": INTEGER, "b": INTEGER},
    "meetings": {
        **{"meeting": INTEGER, "sim_time_s": REAL, "visits": INTEGER, "a": INTEGER, "b": INTEGER},
        **dict.fromkeys(("a_x_m", "a_y_m", "b_x_m", "b_y_m", "meeting_s", "airtime_s"), REAL),
        **{"bytes": INTEGER, "delivered": "bool"},
    },
}


def test_the_files_keep_their_contract() -> None:
    for table, schema in SCHEMAS.items():
        assert list(CONTRACT[table].items()) == [(field.name, str(field.type)) for field in schema]
    assert SCHEMAS.keys() == CONTRACT.keys()


def test_the_page_is_up_to_date() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert with_tables(text) == text, "run python -m fedmule.simulator.runs.columns_page docs/columns.md"
    for column in (column for part in (*TABLES.values(), SUMMARY) for column in part):
        assert f"| `{column.name}` |" in text


def test_the_command_writes_the_page_again(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    page = tmp_path / "columns.md"
    page.write_text(text.replace("| `missed` | int64 |", "| `missed` | string |"), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "fedmule.simulator.runs.columns_page", str(page)], check=True, timeout=600)
    assert page.read_text(encoding="utf-8") == text


PYTHON = {
    pa.int64(): (int, IntArray),
    pa.float64(): (float, FloatArray),
    pa.string(): (str, Sequence[str]),
    pa.bool_(): (bool,),
    pa.list_(pa.int32()): (IntArray,),
    pa.list_(pa.float64()): (FloatArray,),
}


@pytest.mark.parametrize("table", RECORDS)
def test_python_types_fit_those_of_the_files(table: str) -> None:
    hints = get_type_hints(RECORDS[table])
    for column in TABLES[table]:
        hint = hints[column.name]
        plain = [part for part in get_args(hint) if part is not type(None)] if type(None) in get_args(hint) else [hint]
        assert plain[0] in PYTHON[column.type], column.name


def test_the_summary_has_the_last_values_and_totals_of_contacts_that_are_said_to_be_in_it() -> None:
    own = {name for name, hint in get_type_hints(columns.Summary, include_extras=True).items() if _has_metadata(hint)}
    taken = {column.name for column in SUMMARY} - own
    assert taken == {column.name for column in CONTACTS.values() if column.summary}
    last = set(get_type_hints(columns.LastValues))
    personal = {name for name in taken if name.startswith("personal_")}
    assert {column.name for column in CONTACTS.values() if column.summary == "last"} == last | personal


def _has_metadata(hint: object) -> bool:
    return hasattr(hint, "__metadata__")


def test_every_reason_to_stop_is_explained() -> None:
    assert set(get_args(columns.StopReason)) == set(WHY)


def test_labels_have_the_unit_in_which_values_are_shown() -> None:
    expected = {
        "sim_time_s": (3600.0, "simulated time (h)"),
        "bytes": (1e6, "bytes on the air (MB)"),
        "personal_test_acc_mean": (0.01, "personal test accuracy (%)"),
        "missed": (1.0, "clients not reached"),
        "airtime_s": (1.0, "airtime (s)"),
    }
    assert {name: (scale_of(name).size, axis_of(name)) for name in expected} == expected
    shown = [QUANTITIES[name].axis for name in RESULTS]
    assert len(set(shown)) == len(shown)
    for column in QUANTITIES.values():
        ending = {"s": "_s", "m": "_m"}.get(column.unit, "")
        assert column.name.endswith(ending), column.name
        assert column.meaning
