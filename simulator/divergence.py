"""When models diverge: the loss, the token, its steps or duals grow beyond bounds that the run itself sets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from fedmule.simulator.scenario.keys import Part
from fedmule.simulator.scenario.learning import Learning

HUGE = 1e6  # a loss that will not come back
RUNAWAY = 1e3  # times the least loss of the run, or 1: nor will this one
OVER_START = 100.0  # times the loss of the start model, or of guessing: …
IN_A_ROW = 3  # … nor losses beyond that in as many contacts in a row
GROWTH = 1e3  # times the largest size of the first contacts: …
FIRST = 10  # … as many of them
FAR = 3.0  # times its default: a key that may well be the reason
LARGE = 10.0  # times the loss of guessing: a start model has such a loss on features that are too large


class Divergence:
    """Watches losses and sizes from contact to contact; `words` says where the models diverged.

    A loss is measured by the least of the run, and by that of the start model or of guessing, whichever is larger;
    other sizes (|y|, the token's steps, duals) by the largest of the first contacts in which they were not 0.
    """

    def __init__(self, start_loss: float, classes: int, learning: Learning, usual_beta: float | None = None) -> None:
        guessing = math.log(classes)
        self._harmless = max(start_loss, guessing) if math.isfinite(start_loss) else math.inf
        self._reason = _likely(learning, usual_beta, self._harmless > LARGE * guessing)
        self._least_loss = math.inf
        self._high = 0  # contacts in a row with a loss far beyond that of the start
        self._first: dict[str, list[float]] = {}  # of each size, its values in the first contacts
        self.words: str | None = None  # None: they have not diverged

    def learnt(
        self, loss: float | None, sizes: Mapping[str, float], visit: int, contact: int, client: int | None
    ) -> None:
        """Note with which loss clients trained at a contact, and how large what they computed is now, by its name."""
        found = self._wrong_loss(loss) or next(filter(None, (self._wrong_size(*size) for size in sizes.items())), None)
        if found is not None and self.words is None:
            at = f"at contact {contact} (visit {visit})" + ("" if client is None else f", with client {client}")
            self.words = f"{at} {found}; {self._reason}"

    def _wrong_loss(self, loss: float | None) -> str | None:
        """What is wrong with a loss; None if nothing is."""
        if loss is None:
            return None
        if not math.isfinite(loss):
            return "the loss was no number any more"
        bound = min(HUGE, RUNAWAY * max(1.0, self._least_loss))
        self._least_loss = min(self._least_loss, loss)
        self._high = self._high + 1 if loss > OVER_START * self._harmless else 0
        return f"the loss was {loss:.2g}" if loss > bound or self._high == IN_A_ROW else None

    def _wrong_size(self, name: str, size: float) -> str | None:
        """What is wrong with a size; None if nothing is."""
        if not math.isfinite(size):
            return f"{name} was no number any more"
        first = self._first.setdefault(name, [])
        if len(first) < FIRST:
            first += [size] if size else []
            return None
        times = size / max(first)
        return f"{name} was {size:.2g}, {times:,.0f} times as large as at first" if times > GROWTH else None


def _likely(learning: Learning, usual_beta: float | None, large: bool) -> str:
    """The key that is most likely the reason: the one that is farthest from its default."""
    keys = {f"learning.{name}": pair for name, *pair in _numbers(learning) if name in ("step_size", "local_steps")}
    keys |= {f"learning.algorithm.{name}": pair for name, *pair in _numbers(learning.algorithm, beta=usual_beta)}
    far = {name: max(value / usual, usual / value) for name, (value, usual) in keys.items()}
    name = max(far, key=lambda name: far[name])
    if far[name] <= FAR and large:
        return "likely because the features are large: smaller ones, or a smaller learning.step_size, may help"
    if far[name] <= FAR:
        name = "learning.step_size"
    value, usual = keys[name]
    return f"likely because of {name} = {value:g}" + (f" ({usual:g} by default)" if value != usual else "")


def _numbers(part: Part, **usual: float | None) -> Iterator[tuple[str, float, float]]:
    """The positive numbers in a table, with their defaults; `usual` has those that the table does not know."""
    for name, field in type(part).model_fields.items():
        value, default = getattr(part, name), usual.get(name) or field.default
        if _is_positive(value) and _is_positive(default):
            yield name, value, default


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
