"""What no look uses any more is forgotten."""

from __future__ import annotations

from replicator.metadata.remembered import Remembered


def test_what_is_used_stays() -> None:
    known = Remembered[str, int]()
    known["looked up"], known["set"], known["unused"] = 1, 2, 3
    known.forget_unused()
    assert (known.get("looked up"), known.get("never set"), len(known)) == (1, None, 3)
    known["set"] = 4
    known.forget_unused()
    assert (known.get("looked up"), known.get("set"), known.get("unused"), len(known)) == (1, 4, None, 2)
