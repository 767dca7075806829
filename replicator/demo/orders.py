"""The demo's messages: orders with a key, a tag, properties and a JSON body, the same at every run."""

from __future__ import annotations

import json
import random

__all__ = ["QUEUES", "TOPIC", "order"]

TOPIC = "orders"
QUEUES = 4

_TAGS = ("created", "paid", "shipped", "returned")
_SHOPS = ("Berlin", "Lisboa", "Madrid", "Nairobi", "Osaka", "Toronto")
_ITEMS = ("desk lamp", "espresso cups", "garden hose", "headphones", "notebook", "rain jacket", "tea kettle")


def order(number: int) -> dict[str, object]:
    """Order `number`, in the form that the producers accept."""
    chance = random.Random(number)
    shop, item, quantity = chance.choice(_SHOPS), chance.choice(_ITEMS), chance.randint(1, 9)
    amount = round(quantity * chance.uniform(5, 120), 2)
    body = {"order": number, "item": item, "quantity": quantity, "amount": amount}
    return {
        "topic": TOPIC,
        "keys": f"order-{number:06d}",
        "tags": chance.choices(_TAGS, weights=(5, 4, 4, 1))[0],
        "properties": {"shop": shop},
        "body": json.dumps(body),
    }
