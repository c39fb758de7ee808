"""The link budget of a radio over distance, as a table."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from fedmule.radio.link import Budget, Radio

COLUMNS = (
    "distance_m", "path_loss_db", "received_dbm", "snr_db", "mode", "rate_bps", "per", "transmissions", "goodput_bps",
    "seconds_per_mb",
)  # fmt: skip


def usual_distances(radio: Radio) -> list[float]:
    """1, 2, 5, 10, … metres, and where the link ends."""
    round_ones = [float(f"{digit}e{power}") for power in range(9) for digit in (1, 2, 5)]
    return [*[d for d in round_ones if d < radio.range_m], radio.range_m]


def rows(budget: Budget) -> list[list[object]]:
    """A row per distance, in the order of COLUMNS; empty where a radio has no such figure or there is no link."""
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
    """The table for reading, with a heading."""
    units = ["distance, m", "path loss, dB", f"received, {radio.level}", "SNR, dB", "mode", "rate, kb/s", "PER"]
    lines = [[*units, "sent per packet", "goodput, kb/s", "s for 1 MB"]]
    shown = ["{:.7g}", "{:.2f}", "{:.2f}", "{:.2f}", "{}", "{:.6g}", "{:.4g}", "{:.4g}", "{:.6g}", "{:.6g}"]
    scale = [1, 1, 1, 1, 1, 1e-3, 1, 1, 1e-3, 1]
    for row in rows(budget):
        cells = zip(row, shown, scale, strict=True)
        lines.append([f.format(v * s) if isinstance(v, float) else str(v) or "–" for v, f, s in cells])
    return lines


def write_csv(path: Path, budget: Budget) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows(budget))
