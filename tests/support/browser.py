"""A real Chromium for tests, driven by Playwright: Debian's package, unpacked into the user's cache; and axe."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, async_playwright

from replicator.sandbox.jars import cache_directory
from tests.support.debian import unpacked

__all__ = ["chromium", "violations"]

#: The checks of accessibility, as npm has them.
_AXE = "axe-core@4.14.1"
_AXE_SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="

#: Nothing is looked for in the network but what a test opens.
_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--font-render-hinting=none"),
)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A browser: the one that is installed, else that of Debian's package chromium-headless-shell."""
    installed = shutil.which("chromium") or shutil.which("chromium-headless-shell")
    variables: dict[str, str | float | bool] = dict(os.environ)
    path = installed
    if path is None:
        root = unpacked("chromium-headless-shell", with_others=True)
        path = str(next(root.glob("usr/lib/chromium/*headless*shell"), root / "usr/bin/chromium-headless-shell"))
        libraries = sorted({str(each.parent) for each in root.glob("usr/lib/**/*.so*")})
        variables["LD_LIBRARY_PATH"] = ":".join([*libraries, os.environ.get("LD_LIBRARY_PATH", "")])
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=list(_FLAGS), env=variables)
        try:
            yield browser
        finally:
            await browser.close()


async def violations(page: Page) -> list[str]:
    """What axe finds on the page as it is now: the rule, and where.

    The page's own policy lets no script in, so that this is run by the browser's debugger.
    """
    await page.evaluate(_axe().read_text(encoding="utf-8"))
    found: Any = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{rule['id']}: {node['html'][:200]} {json.dumps([check['message'] for check in node['any']])[:300]}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


def _axe() -> Path:
    """axe.min.js of npm's package, which is fetched once and is the one that is named here."""
    root = cache_directory().parent / "npm"
    root.mkdir(parents=True, exist_ok=True)
    found = root / f"{_AXE}.min.js"
    with (root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.exists():
            with tempfile.TemporaryDirectory(dir=root) as work:
                command = ["npm", "pack", "--silent", "--pack-destination", work, _AXE]
                subprocess.run(command, cwd=work, check=True, capture_output=True, timeout=120)
                (archive,) = Path(work).glob("*.tgz")
                digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
                assert digest == _AXE_SHA512, f"{_AXE} of npm is not the one that these tests know"
                with tarfile.open(archive) as packed:
                    script = packed.extractfile("package/axe.min.js")
                    assert script is not None
                    (Path(work) / "axe").write_bytes(script.read())
                (Path(work) / "axe").rename(found)
    return found
