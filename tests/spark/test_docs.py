"""The examples of docs/SPARK.md do what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.spark.waiting import settled
from tests.support.scene import SceneOf
from tests.support.traffic import create_topic, raw_topic

PAGE = Path(__file__).parent.parent.parent / "docs" / "SPARK.md"


async def test_the_examples_run(
    session_of_pages: None, scene: SceneOf, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each writes what is paid to another topic, the batch and the stream."""
    batch, stream = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    async with scene(queues=2) as here:
        await here.produce(300)
        await settled(here.source, here.topic, 300)
        paid = f"{here.topic}-paid"
        await create_topic(here.source, paid)
        names = {
            "127.0.0.1:9876": here.source.namesrv,
            '"orders"': repr(here.topic),
            '"paid"': repr(paid),
            "'paid'": "'tag1'",
            "/var/lib/paid": str(tmp_path / "checkpoint"),
        }
        for example, expected in ((batch, 100), (stream, 200)):
            text = re.sub("|".join(map(re.escape, names)), lambda found: names[found[0]], example)
            exec(compile(text, str(PAGE), "exec"), {})
            await settled(here.source, paid, expected)
            assert sum(map(len, (await raw_topic(here.source, paid)).values())) == expected
        assert "tag1|  100" in capfd.readouterr().out
