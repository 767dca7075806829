"""Writes replicator/sandbox/jars.lock.json: the jars of each sandbox cluster, with checksums.

    python tools/lock_jars.py

Needs Maven to resolve the dependencies of the three RocketMQ artifacts. The sandbox then needs neither
Maven nor a resolver, only the files in this lock.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

LOCK = Path(__file__).resolve().parent.parent / "replicator" / "sandbox" / "jars.lock.json"
VERSIONS = ("4.9.7", "5.1.4", "5.3.3", "5.5.0")
# The versions with a Proxy, which gRPC clients connect to.
PROXIES = ("5.3.3", "5.5.0")
# The official gRPC client for the tests, with all that it needs in one jar.
GRPC_CLIENT = [("org.apache.rocketmq", "rocketmq-client-java", "5.2.0")]
# The newest compiler that still runs on Java 17.
COMPILER = "3.38.0"
# A cluster with YARN for the tests. What else it needs PySpark has, of the same version.
HADOOP = [
    ("org.apache.hadoop", "hadoop-client-minicluster", "3.5.0"),
    ("org.junit.jupiter", "junit-jupiter-api", "5.13.4"),
    ("org.junit.platform", "junit-platform-commons", "1.13.4"),
    ("org.opentest4j", "opentest4j", "1.3.0"),
    ("ch.qos.reload4j", "reload4j", "1.2.26"),
    ("org.bouncycastle", "bcpkix-jdk18on", "1.82"),
    ("org.bouncycastle", "bcprov-jdk18on", "1.82"),
    ("org.bouncycastle", "bcutil-jdk18on", "1.82"),
]

Artifact = tuple[str, str, str]


def groups() -> Iterator[tuple[str, list[Artifact]]]:
    for version in VERSIONS:
        names = ("rocketmq-broker", "rocketmq-namesrv", "rocketmq-tools")
        yield version, [("org.apache.rocketmq", name, version) for name in names]
    for version in PROXIES:
        yield f"{version}-proxy", [("org.apache.rocketmq", "rocketmq-proxy", version)]
    yield "grpc-client", GRPC_CLIENT
    yield "ecj", [("org.eclipse.jdt", "ecj", COMPILER)]
    yield "hadoop", HADOOP


def pom(artifacts: list[Artifact]) -> str:
    alone = artifacts in (HADOOP, GRPC_CLIENT)
    excluded = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        f"{excluded if alone else ''}</dependency>"
        for group, name, version in artifacts
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>sandbox</groupId><artifactId>sandbox</artifactId>"
        f"<version>1</version><dependencies>{dependencies}</dependencies></project>"
    )


def resolve(artifacts: list[Artifact], directory: Path) -> list[Path]:
    """Let Maven copy what `artifacts` need at run time into `directory`, in repository layout."""
    (directory / "pom.xml").write_text(pom(artifacts), encoding="utf-8")
    subprocess.run(
        [
            "mvn",
            "--batch-mode",
            "--quiet",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            "-Dmdep.useRepositoryLayout=true",
            "-DoutputDirectory=jars",
        ],
        cwd=directory,
        check=True,
    )
    return sorted((directory / "jars").rglob("*.jar"))


def main() -> int:
    jars: dict[str, dict[str, object]] = {}
    members: dict[str, list[str]] = {}
    for group, artifacts in groups():
        with tempfile.TemporaryDirectory(prefix="lock-jars-") as name:
            directory = Path(name)
            for jar in resolve(artifacts, directory):
                path = jar.relative_to(directory / "jars").as_posix()
                content = jar.read_bytes()
                jars[path] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
                members.setdefault(path, []).append(group)
    # One line per jar, with the groups it belongs to: a change of one jar is a diff of one line.
    lines = [json.dumps({"path": path, **jars[path], "groups": members[path]}) for path in sorted(jars)]
    LOCK.write_text('{"jars": [\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8")
    sys.stdout.write(f"{len(lines)} jars in {LOCK}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
