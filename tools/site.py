"""The documentation as a site, `site/`: the pages of the tree as they are, by MkDocs; a link that leads nowhere ends it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parent.parent

#: Every page of the tree that is for users, in the order of a reader's questions.
NAV: Final[dict[str, list[str]]] = {
    "Start": ["README.md", "docs/FIRST_STEPS.md", "docs/CONCEPTS.md", "docs/FAQ.md", "docs/INSTALL.md"],
    "Do": ["docs/MIGRATION.md", "docs/DISASTERS.md", "docs/TWO_WAY.md", "docs/EXAMPLES.md"],
    "Operate": [
        "docs/PAGE.md",
        "docs/RUNBOOK.md",
        "docs/INCIDENTS.md",
        "docs/WORKERS.md",
        "docs/SIZING.md",
        "docs/SCALING.md",
        "docs/WAN.md",
        "docs/SECURING.md",
        "docs/UPGRADE.md",
        "docs/MONITORING.md",
        "docs/ALERTS.md",
        "docs/DASHBOARDS.md",
        "docs/METADATA.md",
        "docs/ACL.md",
        "docs/TRUST.md",
        "SECURITY.md",
    ],
    "Spark and plugins": ["docs/SPARK.md", "docs/TRANSFORMS.md", "docs/PLUGINS.md"],
    "Reference": [
        "docs/CONFIG.md",
        "docs/CLI.md",
        "docs/REST.md",
        "docs/METRICS.md",
        "docs/GUARANTEES.md",
        "docs/COMPATIBILITY.md",
    ],
    "Speed": ["docs/BENCHMARKS.md", "docs/PERFORMANCE.md"],
    "Inside": [
        "ARCHITECTURE.md",
        "docs/QUEUE_STATES.md",
        "docs/PATTERNS.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    ],
    "中文": [
        "README.zh-CN.md",
        "docs/zh/first-steps.md",
        "docs/zh/migration.md",
        "docs/zh/disasters.md",
        "docs/zh/troubleshooting.md",
    ],
}
_LINK: Final = re.compile(r"\]\(([^)\s#]+)")


def pages() -> list[str]:
    return [page for section in NAV.values() for page in section]


def linked(page: str) -> set[str]:
    """The files of the tree that a page links to and that are no pages."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = {(ROOT / page).parent / link for link in _LINK.findall(text) if not re.match(r"\w+:", link)}
    return {str(path.resolve().relative_to(ROOT)) for path in found if path.is_file() and path.suffix != ".md"}


def stage(directory: Path) -> None:
    """The pages and what they link to, where they are in the tree, so that relative links hold."""
    for name in {*pages(), *(file for page in pages() for file in linked(page))}:
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)


def settings(docs: Path, site: Path) -> dict[str, Any]:
    """For MkDocs; nothing is loaded from elsewhere when a page is read."""
    return {
        "site_name": "RocketMQ replicator",
        "docs_dir": str(docs),
        "site_dir": str(site),
        "nav": [{section: names} for section, names in NAV.items()],
        "theme": {
            "name": "material",
            "font": False,
            "features": ["navigation.sections", "navigation.top", "content.code.copy", "search.highlight"],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default", "primary": "teal"},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "primary": "teal"},
            ],
        },
        "plugins": ["search"],
        "markdown_extensions": [
            "tables",
            {"toc": {"permalink": True, "slugify": "SLUGIFY"}},
            "pymdownx.superfences",
            "pymdownx.highlight",
        ],
        "validation": {"links": {"not_found": "warn", "anchors": "warn"}, "nav": {"not_found": "warn"}},
    }


def build(directory: Path) -> int:
    """Builds the site into `directory`; 0 if all links between pages hold, as MkDocs sees them."""
    with tempfile.TemporaryDirectory() as place:
        docs, config = Path(place) / "docs", Path(place) / "mkdocs.yml"
        stage(docs)
        text = yaml.safe_dump(settings(docs, directory), allow_unicode=True, sort_keys=False)
        # Anchors as GitHub makes them, also of Chinese headings; YAML has no other way to name a function.
        slugs = "!!python/object/apply:pymdownx.slugs.slugify {kwds: {case: lower}}"
        config.write_text(text.replace("SLUGIFY", slugs), encoding="utf-8")
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config)]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(build(ROOT / "site"))
