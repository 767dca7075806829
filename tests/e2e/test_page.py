"""The page in a real Chromium, on a real group: each view with data, each action, by keyboard, on a phone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial, reduce
from operator import getitem
from pathlib import Path
from typing import Any, Literal

import pytest
import pytest_asyncio
from playwright.async_api import Browser, ConsoleMessage, Page, expect

from replicator.client.cluster import Cluster as Client
from replicator.client.pull import pull
from replicator.routing.dead_letter import DeadLetters
from replicator.routing.queue_map import Queue
from replicator.sandbox import Cluster, ClusterSpec
from tests.support.attempt import attempt
from tests.support.browser import chromium, violations
from tests.support.clusters import ClusterPool
from tests.support.offsets import commit, make_group
from tests.support.traffic import Producer, create_topic, produce
from tests.support.worker import SYNC_QUICKLY, Worker, until

pytestmark = [pytest.mark.timeout(300), pytest.mark.fetched]

EAST, WEST = ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.3.3")
IMAGES = Path(__file__).parent.parent.parent / "docs" / "images"
TOKENS = {"TOKEN": "the-admin", "OPERATE_TOKEN": "the-operator", "READ_TOKEN": "the-reader"}
#: A telephone, and a laptop.
PHONE, LAPTOP = (360, 740), (1200, 800)

#: What a browser's console says of passwords, mistakes in forms, and requests that a test fails.
_EXPECTED = ("status of 401", "status of 400", "net::ERR_FAILED")

#: Each view with a word that is there only if it has data.
VIEWS = {
    "/": "Are we safe to fail over?",
    "/page/topics": "{orders}",
    "/page/topic?connector=route&topic={orders}": "east-a/0",
    "/page/workers": "leader",
    "/page/readiness": "{group}",
    "/page/metadata": "group {group}",
    "/page/errors": "Connector route writes no dead letters now",
    "/page/dead-letters?connector=route": "{payments}/east-a/0 offset 3",
    "/page/events": "connector created",
    "/page/find?connector=route&topic={orders}&key=k7": "KEYS",
    "/page/connector": "rate_messages",
    "/page/failover": "Only these topics, of 2",
}


@dataclass(frozen=True)
class Stage:
    """Two workers that copy two topics under load, and a browser."""

    browser: Browser
    workers: tuple[Worker, Worker]
    source: Cluster
    target: Cluster
    orders: str
    payments: str
    group: str

    def named(self, text: str) -> str:
        """With the names of this stage."""
        return text.format(orders=self.orders, payments=self.payments, group=self.group)

    def ask(self, method: str, path: str, body: Any = None, *, worker: int = 0) -> Any:
        """What REST of a worker answers."""
        status, answer = self.workers[worker].ask(method, path, body, token=TOKENS["TOKEN"])
        assert status == 200, answer
        return answer

    async def told(self, path: str, *keys: str, value: Any) -> None:
        """Waits until the other worker, which learns of changes over a topic, says so too."""
        await until(lambda: reduce(getitem, keys, self.ask("GET", path, worker=1)) == value, seconds=20, what=path)

    @asynccontextmanager
    async def page(
        self,
        token: str = "OPERATE_TOKEN",
        *,
        size: tuple[int, int] = LAPTOP,
        colours: Literal["light", "dark"] = "light",
        script: bool = True,
        worker: int = 0,
    ) -> AsyncIterator[Page]:
        """A page of its own; what its console says is an error of the test."""
        context = await self.browser.new_context(
            base_url=f"http://127.0.0.1:{self.workers[worker].port}",
            http_credentials={"username": "me", "password": TOKENS[token]},
            viewport={"width": size[0], "height": size[1]},
            color_scheme=colours,
            java_script_enabled=script,
        )
        context.set_default_timeout(20_000)
        told: list[str] = []

        def note(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning") and not any(each in message.text for each in _EXPECTED):
                told.append(message.text)

        try:
            page = await context.new_page()
            page.on("console", note)
            page.on("pageerror", lambda error: told.append(str(error)))
            yield page
        finally:
            await context.close()
        assert told == []


@pytest_asyncio.fixture(loop_scope="session")
async def stage(clusters: ClusterPool, shared_stage: Stage) -> Stage:
    """The stage of all tests here; its clusters would be paused where a test does not ask for them."""
    await clusters.pair(EAST, WEST)
    if attempt():  # the first may have left the route paused
        shared_stage.workers[0].ask("PUT", "/connectors/route/resume", token=TOKENS["TOKEN"])
    return shared_stage


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared_stage(clusters: ClusterPool, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    source, target = await clusters.pair(EAST, WEST)
    orders, payments, group = (f"page-{name}{attempt()}" for name in ("orders", "payments", "billing"))
    for topic in (orders, payments):
        await create_topic(source, topic, queues=4)
        await produce(source, topic, 400)
    await make_group(source, group)
    await commit(source, group, orders, {("east-a", queue): 50 for queue in range(4)})
    environment = {f"REPLICATOR_REST__{name}": token for name, token in TOKENS.items()}
    flags = ("--topics", f"{orders},{payments}", *SYNC_QUICKLY, "--sync-groups", group)
    first, second = (
        Worker(
            *(source, target, tmp_path_factory.mktemp("page") / name, "--worker-id", name, *flags),
            environment=environment,
            group=f"page{attempt()}",
        )
        for name in ("w1", "w2")
    )
    async with first, second, chromium() as browser, Producer(source, payments, per_second=300, patient=True):
        made = Stage(browser, (first, second), source, target, orders, payments, group)
        await _leave_a_dead_letter(source, target, payments)
        await until(partial(_all_is_known, made), seconds=40, what="both have tasks, and a line has begun")
        yield made


async def _leave_a_dead_letter(here: Cluster, there: Cluster, topic: str) -> None:
    """The message at offset 3 of `topic`, as one that `there` refuses."""
    source, target = (Client([cluster.namesrv]) for cluster in (here, there))
    try:
        await asyncio.gather(source.refresh(), target.refresh())
        (message, *_) = (await pull(source.reader("east-a"), topic, 0, 3, count=1)).messages
        letters = DeadLetters(target, "replicator_sys_dead_letter", cluster="east", limit=lambda _: 100_000)
        await letters.put("west-a", topic, Queue("east-a", 0), message, "too large")
    finally:
        await asyncio.gather(source.close(), target.close())


def _all_is_known(stage: Stage) -> bool:
    """Every worker has tasks, the group has offsets at the target, and the second point of the lines is there."""
    overview = stage.ask("GET", "/overview")
    shares = stage.ask("GET", "/allocated/connectors")
    (connector,) = overview["connectors"]
    groups = stage.ask("GET", "/connectors/route/readiness")["groups"]
    known = [each for each in groups if each["group"] == stage.group and not each["without_offset"]]
    return len(shares) == 2 and all(shares.values()) and connector["rate"] is not None and bool(known)


@pytest.mark.parametrize("colours", ["light", "dark"])
async def test_each_view_has_its_data_and_axe_finds_nothing(
    stage: Stage, colours: Literal["light", "dark"]
) -> None:
    async with stage.page(colours=colours) as page:
        found = {}
        for path, word in VIEWS.items():
            await page.goto(stage.named(path))
            await expect(page.get_by_text(stage.named(word)).first).to_be_visible()
            found[path] = await violations(page)
        assert {path: why for path, why in found.items() if why} == {}


async def test_no_view_is_wider_than_a_telephone(stage: Stage) -> None:
    async with stage.page(size=PHONE) as page:
        for path in VIEWS:
            await page.goto(stage.named(path))
            width = await page.evaluate("document.scrollingElement.scrollWidth")
            assert width <= PHONE[0], path


async def test_it_works_without_its_script(stage: Stage) -> None:
    async with stage.page(script=False) as page:
        await page.goto("/")
        await page.get_by_role("link", name="Topics", exact=True).click()
        await page.get_by_role("link", name=stage.orders).click()
        await expect(page.get_by_role("heading", name=stage.orders)).to_be_visible()


async def test_a_view_is_renewed_by_itself_and_says_how_old_it_is_when_it_is_not(stage: Stage) -> None:
    """What has the focus keeps it."""
    async with stage.page() as page:
        await page.goto("/page/connector")
        link = page.get_by_role("region", name="Tasks")
        await link.focus()
        stage.ask("PUT", "/connectors/route/pause")
        await expect(page.locator("main").get_by_text("PAUSED").first).to_be_visible(timeout=4_000)
        await expect(link).to_be_focused()
        stage.ask("PUT", "/connectors/route/resume")
        await expect(page.get_by_role("button", name="Pause")).to_be_visible()
        await page.route("**/page/connector", lambda route: route.abort())
        await expect(page.get_by_role("status").filter(has_text="What you see is")).to_be_visible(timeout=15_000)
        await page.unroute("**/page/connector")
        await expect(page.locator("#notice")).to_be_hidden(timeout=15_000)


async def test_states_and_tasks_are_changed_by_keyboard_alone(stage: Stage) -> None:
    """And the events say who it was."""
    async with stage.page() as page:
        await page.goto("/page/connector")
        await _press(page, "Pause")
        await expect(page.get_by_text("Done: paused")).to_be_visible()
        await stage.told("/connectors/route/status", "connector", "state", value="PAUSED")
        await _press(page, "Resume")
        await expect(page.get_by_text("Done: resumed")).to_be_visible()
        await page.get_by_role("button", name=f"Restart task {stage.orders}").click()
        await expect(page.get_by_text(f"Done: task {stage.orders} restarted")).to_be_visible()
        await page.get_by_role("button", name="Restart all tasks").click()
        await expect(page.get_by_text("Done: restarted")).to_be_visible()
        await _press(page, "Stop")
        await expect(page.get_by_text("Done: stopped")).to_be_visible()
        await stage.told("/connectors/route/status", "connector", "state", value="STOPPED")
        await _press(page, "Resume")
        await expect(page.get_by_text("Done: resumed")).to_be_visible()
        await page.goto("/page/events?by=people")
        row = page.get_by_role("row").filter(has_text="connector paused").first
        await expect(row).to_contain_text("page 127.0.0.1 (operate)")
    async with stage.page(worker=1) as page:
        await page.goto("/page/events?by=people")
        row = page.get_by_role("row").filter(has_text="connector paused").first
        await expect(row).to_contain_text("w1")
        await expect(row).to_contain_text("page 127.0.0.1 (operate)")


async def _press(page: Page, name: str) -> None:
    """Goes from the top of the page to a button, and presses it, as who has no mouse does."""
    await page.locator("body").press("Tab")
    await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    await page.keyboard.press("Enter")
    button = page.get_by_role("button", name=name, exact=True)
    for _ in range(20):
        await page.keyboard.press("Tab")
        if await button.evaluate("each => each === document.activeElement"):
            break
    await expect(button).to_be_focused()
    await page.keyboard.press("Enter")


async def test_rates_are_limited_and_a_mistake_is_explained(stage: Stage) -> None:
    async with stage.page() as page:
        await page.goto("/page/connector")
        await page.get_by_label("Messages per second").fill("many")
        await page.get_by_role("button", name="Set limits").click()
        await expect(page.get_by_role("alert")).to_contain_text("rate_messages = 'many' is not a whole number")
        assert await violations(page) == []
        await page.get_by_role("link", name="Back").click()
        await page.get_by_label("Messages per second").fill("5,000")
        await page.get_by_role("button", name="Set limits").click()
        await expect(page.get_by_text("Done: rate limits changed")).to_be_visible()
        await stage.told("/connectors/route/rates", "rate_messages", value=5000)


async def test_a_configuration_is_checked_compared_and_changed(stage: Stage) -> None:
    async with stage.page("TOKEN") as page:
        await page.goto("/page/connector/config?connector=route")
        text = page.get_by_label("Configuration")
        config = await text.input_value()
        await text.fill(config.replace('"rate_bytes": 0', '"rate_bytes": -1'))
        await page.get_by_role("button", name="Check it").click()
        await expect(page.get_by_role("alert")).to_contain_text("rate_bytes")
        await text.fill(config.replace('"rate_bytes": 0', '"rate_bytes": 90000000'))
        await page.get_by_role("button", name="Check it").click()
        await expect(page.locator(".plus")).to_have_text('+ "rate_bytes": 90000000,')
        assert await violations(page) == []
        await page.get_by_role("button", name="Apply this change").click()
        await expect(page.get_by_text("Done: configuration changed")).to_be_visible()
        await stage.told("/connectors/route/rates", "rate_bytes", value=90_000_000)


async def test_who_only_reads_sees_no_buttons_and_no_bodies(stage: Stage) -> None:
    found = stage.named("/page/find?connector=route&topic={orders}&broker=west-a&queue=1&offset=3&side=target")
    for token, bodies in (("OPERATE_TOKEN", 2), ("READ_TOKEN", 0)):
        async with stage.page(token) as page:
            await page.goto(found)
            await expect(page.get_by_text(f"{stage.orders}/east-a/1 offset 3")).to_be_visible()
            await expect(page.locator("pre")).to_have_count(bodies)
            await page.goto("/page/connector")
            await expect(page.get_by_role("button", name="Pause")).to_have_count(1 if bodies else 0)


async def test_a_dead_letter_is_sent_again(stage: Stage) -> None:
    """By the button beside it; then it says where it is. Who only reads has no button."""
    async with stage.page("READ_TOKEN") as page:
        await page.goto("/page/dead-letters")
        await expect(page.get_by_text("too large").first).to_be_visible()
        await expect(page.get_by_role("button")).to_have_count(0)
    async with stage.page() as page:
        await page.goto("/page/dead-letters")
        await page.get_by_role("button", name=f"Send again {stage.payments}/east-a/0 offset 3").first.click()
        await expect(page.get_by_text(f"Done: sent to {stage.payments}/west-a/0 offset")).to_be_visible()
        assert await violations(page) == []
        await expect(page.get_by_role("row").filter(has_text="too large").first).to_contain_text("sent")


async def test_pictures_for_the_docs(stage: Stage, request: pytest.FixtureRequest) -> None:
    """With `--page-images` only, after some minutes, so that there are lines."""
    if not request.config.getoption("--page-images"):
        return
    await asyncio.sleep(200)
    IMAGES.mkdir(exist_ok=True)
    pictures: tuple[tuple[str, str, Literal["light", "dark"], tuple[int, int]], ...] = (
        ("overview", "/", "light", (1120, 900)),
        ("overview-dark", "/", "dark", (1120, 900)),
        ("topic", "/page/topic?topic={payments}", "light", (1120, 760)),
        ("phone", "/", "light", (PHONE[0], 860)),
        ("readiness", "/page/readiness", "light", (1120, 700)),
        ("metadata", "/page/metadata", "light", (1120, 700)),
        ("dead-letters", "/page/dead-letters?connector=route", "light", (1120, 480)),
        ("events", "/page/events?by=people", "light", (1120, 520)),
        ("find", "/page/find?connector=route&topic={orders}&key=k7", "light", (1120, 760)),
    )
    for name, path, colours, size in pictures:
        async with stage.page(size=size, colours=colours) as page:
            await page.goto(stage.named(path))
            await page.screenshot(path=IMAGES / f"page-{name}.png")
    async with stage.page("TOKEN", size=(1120, 620)) as page:
        await page.goto("/page/connector/config?connector=route")
        text = page.get_by_label("Configuration")
        await text.fill((await text.input_value()).replace('"rate_messages": 0', '"rate_messages": 500'))
        await page.get_by_role("button", name="Check it").click()
        await expect(page.locator(".plus")).to_be_visible()
        await page.locator(".plus").scroll_into_view_if_needed()
        await page.screenshot(path=IMAGES / "page-configuration.png")
        await page.set_viewport_size({"width": 1120, "height": 760})
        await page.goto("/page/failover")
        await page.get_by_role("button", name="Dry run").click()
        await expect(page.get_by_text("Topics to open")).to_be_visible()
        await page.screenshot(path=IMAGES / "page-failover.png")


async def test_a_failover_is_tried_confirmed_and_watched_to_its_end(stage: Stage) -> None:
    """The last test of the stage, which is stopped by it."""
    async with stage.page() as page:
        await page.goto("/page/failover")
        await page.get_by_role("button", name="Dry run").click()
        await expect(page.get_by_text("Nothing was changed")).to_be_visible()
        await expect(page.get_by_text("Topics to open")).to_be_visible()
        assert await violations(page) == []
        await page.get_by_role("link", name="Failover", exact=True).first.click()
        await page.get_by_label("Type the connector's name").fill("rout")
        await page.get_by_role("button", name="Fail over now").click()
        await expect(page.get_by_role("alert")).to_contain_text("type route to confirm it")
        assert stage.ask("GET", "/connectors/route/status")["connector"]["state"] == "RUNNING"
        await page.get_by_role("link", name="Back").click()
        await page.get_by_label("Seconds to wait").fill("2")
        await page.get_by_label("Type the connector's name").fill("route")
        await page.get_by_role("button", name="Fail over now").click()
        await expect(page.get_by_text("failover begins")).to_be_visible()
        await expect(page.get_by_text("failover writes offsets and opens topics")).to_be_visible()
        await expect(page.get_by_role("heading", name="Report")).to_be_visible()
        assert await violations(page) == []
        await page.goto("/")
        await expect(
            page.get_by_text(re.compile("connector route was failed over at .* and is STOPPED"))
        ).to_be_visible()
    await stage.told("/connectors/route/status", "connector", "state", value="STOPPED")


async def test_a_feed_of_events_ends_with_its_worker(stage: Stage) -> None:
    """Which would wait for it for ever. First it says what has happened, and where one would go on."""
    worker = stage.workers[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", worker.port)
    head = f"GET /events?after=0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKENS['READ_TOKEN']}\r\n\r\n"
    writer.write(head.encode())
    told = await asyncio.wait_for(reader.readuntil(b"connector changed at another worker"), 20)
    assert b"text/event-stream" in told
    assert b"id: 1\n" in told
    try:
        assert await worker.drain() == 0
        assert b"draining" in await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()
        await worker.start()  # for a second attempt
