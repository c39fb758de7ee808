"""Figures from ns-3.44, in tests/reference/radio."""

import csv
from pathlib import Path

NS3_LOSS_DB = 46.6777  # its default loss at 1 m, whatever the carrier: free space at 5.15 GHz
FOLDER = Path(__file__).parents[1] / "reference" / "radio"


def ns3_figures(name):
    """The rows of a table, each a dict of strings."""
    with open(FOLDER / name, newline="") as file:
        return list(csv.DictReader(file))
