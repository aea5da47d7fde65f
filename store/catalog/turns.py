"""The order of pending work: by urgency, then namespaces in turn, then oldest notice. Pure, and the same for every adapter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from store.model import Namespace, PendingDocument, Urgency


def take_turns(waiting: Iterable[PendingDocument]) -> list[PendingDocument]:
    """The n-th oldest of every namespace comes before the (n+1)-th oldest of any, within one urgency."""
    turns: Counter[tuple[Urgency, Namespace]] = Counter()
    placed: list[tuple[Urgency, int, float, int, PendingDocument]] = []
    for number, row in enumerate(sorted(waiting, key=lambda row: (row.urgency, row.noticed_at))):
        turn = (row.urgency, row.document.namespace)
        placed.append((row.urgency, turns[turn], row.noticed_at, number, row))
        turns[turn] += 1
    return [row for *_, row in sorted(placed, key=lambda place: place[:4])]
