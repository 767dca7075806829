"""The audit takes its part of what is copied, and a little besides."""

from __future__ import annotations

from replicator.routing.audit_budget import AuditBudget


def spent(budget: AuditBudget) -> int:
    pulls = 0
    while budget.may_read:
        budget.spend(1)
        pulls += 1
    return pulls


def test_it_is_earned_by_messages_and_by_time() -> None:
    """More by those in small batches, and fifty a second; nothing for the time before it began."""
    budget = AuditBudget()
    budget.refill(1000.0)
    assert budget.is_rich
    assert spent(budget) == 512
    assert not budget.is_rich
    budget.earn(32_000)
    assert spent(budget) == 101
    for _ in range(1000):
        budget.earn(1)
    assert spent(budget) == 93
    budget.refill(1002.0)
    assert spent(budget) == 100


def test_what_is_saved_up_has_an_end() -> None:
    """After a long rest no more than 2048 pulls come at once."""
    budget = AuditBudget()
    budget.refill(0.0)
    budget.refill(1e9)
    assert budget.is_rich
    assert spent(budget) == 2048
    budget.earn(10**9)
    assert spent(budget) == 2048


def test_debts_are_paid_first() -> None:
    """A segment costs more than is there; then nothing is read until that is earned."""
    budget = AuditBudget()
    budget.spend(1512)
    budget.earn(319_000)
    assert not budget.may_read
    budget.earn(1000)
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
