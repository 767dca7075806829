"""Builds all that a release has: wheels, the source archive, the list of parts (SBOM) and checksums.

    python -m tools.dist [DIRECTORY]

Everything is built twice as a check that a build is reproducible: each file must have the same bytes both times.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.compile import ANY, PLATFORMS

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
JARS = ROOT / "replicator" / "sandbox" / "jars.lock.json"
SBOM = "sbom.cdx.json"
SUMS = "SHA256SUMS"


def wheel(name: str, directory: Path, *, root: Path = ROOT) -> Path:
    """Builds the wheel of a platform into `directory`.

    Args:
        name: one of `PLATFORMS`, or `any`.
    """
    return _built(["-t", "wheel"], directory, root=root, environment={"REPLICATOR_WHEEL": name})


def _built(what: list[str], directory: Path, *, root: Path, environment: Mapping[str, str]) -> Path:
    before = {*directory.glob("*")}
    command = [sys.executable, "-m", "hatchling", "build", *what, "-d", str(directory)]
    done = subprocess.run(
        command, cwd=root, check=False, env={**os.environ, **environment}, capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    (made,) = {*directory.glob("*")} - before
    return made


def build(directory: Path) -> list[Path]:
    """All wheels and the source archive."""
    directory.mkdir(parents=True, exist_ok=True)
    made = [wheel(name, directory) for name in (*PLATFORMS, ANY)]
    return [*made, _built(["-t", "sdist"], directory, root=ROOT, environment={})]


def released(lock: str) -> str:
    """Of the lock file the packages that an installation with all extras has; it has those of developers, too."""
    wanted = {*_closure("rocketmq-replicator", frozenset({"sandbox", "spark", "hdfs"}))}
    entries = re.findall(r"^[a-z0-9].*(?:\n    .*)*\n", lock, re.MULTILINE)
    return "".join(entry for entry in entries if canonicalize_name(entry.split("==")[0]) in wanted)


def _closure(name: str, extras: frozenset[str]) -> Iterator[str]:
    """What the installed distribution `name` requires, and what that requires."""
    seen: set[tuple[str, frozenset[str]]] = set()
    left = [(name, extras)]
    while left:
        name, extras = each = left.pop()
        if each in seen:
            continue
        seen.add(each)
        for line in importlib.metadata.requires(name) or ():
            requirement = Requirement(line)
            chosen = extras or {""}
            if requirement.marker is None or any(requirement.marker.evaluate({"extra": e}) for e in chosen):
                yield canonicalize_name(requirement.name)
                left.append((requirement.name, frozenset(requirement.extras)))


def sbom() -> str:
    """The parts of an installation with all extras, as the lock files have them, in the form of CycloneDX."""
    command = [str(Path(sys.executable).with_name("cyclonedx-py")), "requirements", "-", "--output-reproducible"]
    listed = subprocess.run(
        [*command, "--pyproject", str(ROOT / "pyproject.toml")],
        input=released(LOCK.read_text(encoding="utf-8")),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(listed.stdout)
    found["components"] += [_jar(jar) for jar in json.loads(JARS.read_text(encoding="utf-8"))["jars"]]
    return json.dumps(found, indent=2) + "\n"


def _jar(jar: Mapping[str, str]) -> dict[str, object]:
    """One that `replicator sandbox` fetches, where it is used."""
    *group, name, version, file = jar["path"].split("/")
    classifier = file.removeprefix(f"{name}-{version}").removesuffix(".jar").lstrip("-")
    return {
        "bom-ref": jar["path"],
        "type": "library",
        "group": ".".join(group),
        "name": name,
        "version": version,
        "purl": f"pkg:maven/{'.'.join(group)}/{name}@{version}"
        + (f"?classifier={classifier}" if classifier else ""),
        "hashes": [{"alg": "SHA-256", "content": jar["sha256"]}],
        "scope": "optional",
    }


def main(directory: Path) -> None:
    with tempfile.TemporaryDirectory() as again:
        made, twins = build(directory), build(Path(again))
        different = [
            one.name for one, twin in zip(made, twins, strict=True) if one.read_bytes() != twin.read_bytes()
        ]
    if different:
        sys.exit(f"not reproducible: {', '.join(different)}")
    parts = directory / SBOM
    parts.write_text(sbom(), encoding="utf-8")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in (*made, parts)]
    (directory / SUMS).write_text("".join(lines), encoding="utf-8")
    sys.stdout.write("".join(lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist")
