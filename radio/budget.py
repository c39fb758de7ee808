"""The link budget of a radio: its figures over distance, and as a table."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fedmule.radio.link import Radio

FloatArray = NDArray[np.float64]

COLUMNS = (
    "distance_m", "path_loss_db", "received_dbm", "snr_db", "mode", "rate_bps", "per", "transmissions", "goodput_bps",
    "seconds_per_mb",
)  # fmt: skip


@dataclass(frozen=True)
class Budget:
    """Figures of a link at each of m distances; nan where a radio has no such figure."""

    distance_m: FloatArray
    path_loss_db: FloatArray  # obstruction included
    received_dbm: FloatArray
    snr_db: FloatArray
    mode: tuple[str, ...]  # modulation and coding used; "" where there is no link
    rate_bps: FloatArray  # on the air
    per: FloatArray  # packet error rate; 1 where there is no link
    goodput_bps: FloatArray  # useful bits per second, net of overheads, retransmissions and waiting


def usual_distances(radio: Radio) -> list[float]:
    """Distances 1, 2, 5, 10, … m up to the range, and the range itself."""
    round_distances = [float(f"{digit}e{power}") for power in range(9) for digit in (1, 2, 5)]
    return [*[d for d in round_distances if d < radio.range_m], radio.range_m]


def rows(budget: Budget) -> list[list[object]]:
    """One row per distance, in the order of COLUMNS; empty where a radio has no such figure or there is no link."""
    table: list[list[object]] = []
    with np.errstate(divide="ignore"):
        transmissions, seconds = 1 / (1 - budget.per), 8e6 / budget.goodput_bps
    columns = (
        budget.distance_m, budget.path_loss_db, budget.received_dbm, budget.snr_db, budget.mode, budget.rate_bps,
        budget.per, transmissions, budget.goodput_bps, seconds,
    )  # fmt: skip
    for row in zip(*columns, strict=True):
        table.append([v if isinstance(v, str) else float(v) if np.isfinite(v) else "" for v in row])
    return table


def as_lines(radio: Radio, budget: Budget) -> list[list[str]]:
    """The table as formatted text, with a header."""
    units = ["distance, m", "path loss, dB", f"received, {radio.level}", "SNR, dB", "mode", "rate, kb/s", "PER"]
    lines = [[*units, "sent per packet", "goodput, kb/s", "s for 1 MB"]]
    shown = ["{:.7g}", "{:.2f}", "{:.2f}", "{:.2f}", "{}", "{:.6g}", "{:.4g}", "{:.4g}", "{:.6g}", "{:.6g}"]
    scale = [1, 1, 1, 1, 1, 1e-3, 1, 1, 1e-3, 1]
    for row in rows(budget):
        cells = zip(row, shown, scale, strict=True)
        lines.append([f.format(v * s) if isinstance(v, float) else str(v) or "–" for v, f, s in cells])
    return lines


def write_csv(path: Path, budget: Budget) -> None:
    """Write the table, with COLUMNS as its header."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows(budget))
