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


def test_what_is_to_be_kept_stays_unused() -> None:
    """For as long as that is said of it."""
    known = Remembered[str, int]()
    known["a"], known["b"] = 1, 2
    for _ in range(3):
        known.forget_unused(lambda key: key == "a")
    assert len(known) == 1
    assert known.get("a") == 1
    known.forget_unused()
    known.forget_unused()
    assert len(known) == 0
