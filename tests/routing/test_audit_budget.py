"""The audit takes its part of what is copied, and a little besides."""

from __future__ import annotations

from replicator.routing.audit_budget import AuditBudget


def spent(budget: AuditBudget) -> int:
    pulls = 0
    while budget.may_read:
        budget.spend(1)
        pulls += 1
    return pulls


def test_it_is_earned_by_packs_and_by_time() -> None:
    """Less than a third of a pull for a pack, and fifty a second; not for all that was before."""
    budget = AuditBudget()
    budget.refill(1000.0)
    assert budget.is_rich is False
    assert spent(budget) == 2048
    budget.earn(1000)
    assert spent(budget) == 300
    budget.refill(1002.0)
    assert spent(budget) == 100


def test_what_is_saved_up_has_an_end() -> None:
    """After a long rest no more than 4096 pulls come at once."""
    budget = AuditBudget()
    budget.refill(0.0)
    budget.refill(1e9)
    assert budget.is_rich
    assert spent(budget) == 4096
    budget.earn(10**9)
    assert spent(budget) == 4096


def test_debts_are_paid_first() -> None:
    """A segment costs more than is there; then nothing is read until that is earned."""
    budget = AuditBudget()
    budget.spend(3048)
    budget.earn(3300)
    assert not budget.may_read
    budget.earn(100)
    assert budget.may_read


def test_what_waits_and_what_is_kept_are_bounded() -> None:
    """Over all queues; each keeps some."""
    budget = AuditBudget()
    budget.waiting = 20_000
    assert not budget.may_read
    assert budget.kept == 20_000
    budget.queues = 8
    assert budget.kept == 2_500
    budget.queues = 10_000
    assert budget.kept == 8
