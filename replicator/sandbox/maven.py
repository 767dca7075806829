"""The source of jars: the repository and the proxies from the environment and Maven's settings."""

from __future__ import annotations

import os
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

from replicator.errors import ConfigError

__all__ = ["Source", "local_repository", "source"]

CENTRAL = "https://repo1.maven.org/maven2"
_VARIABLE = "REPLICATOR_MAVEN_REPOSITORY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A repository's address and its proxies, by scheme (a proxy URL may contain credentials)."""

    repository: str
    proxies: dict[str, str] = field(default_factory=dict, repr=False)

    def url(self, path: str) -> str:
        return f"{self.repository}/{urllib.parse.quote(path)}"

    def opener(self) -> urllib.request.OpenerDirector:
        host = urllib.parse.urlsplit(self.repository).hostname or ""
        proxies = {} if urllib.request.proxy_bypass(host) else self.proxies
        return urllib.request.build_opener(urllib.request.ProxyHandler(proxies))


def source(home: Path | None = None) -> Source:
    """The environment takes precedence over ~/.m2/settings.xml, and that over Maven Central."""
    settings = _settings((home or Path.home()) / ".m2" / "settings.xml")
    repository = os.environ.get(_VARIABLE) or _mirror(settings) or CENTRAL
    if urllib.parse.urlsplit(repository).scheme not in {"http", "https"}:
        raise ConfigError(f"{repository!r} is not a Maven repository", hint=f"set {_VARIABLE} to an http(s) URL")
    proxies = urllib.request.getproxies() or _proxies(settings, repository)
    return Source(repository=repository.rstrip("/"), proxies=proxies)


def local_repository(home: Path | None = None) -> Path:
    return (home or Path.home()) / ".m2" / "repository"


def _settings(path: Path) -> ElementTree.Element:
    """The settings without their XML namespace, which is optional; empty if there is no file."""
    try:
        root = ElementTree.fromstring(path.read_bytes())  # noqa: S314 - the user's own file
    except (OSError, ElementTree.ParseError):
        return ElementTree.Element("settings")
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def _mirror(settings: ElementTree.Element) -> str:
    for mirror in settings.findall("mirrors/mirror"):
        wanted = [name.strip() for name in mirror.findtext("mirrorOf", "").split(",")]
        if {"*", "central", "external:*"} & set(wanted) and "!central" not in wanted:
            return mirror.findtext("url", "").strip()
    return ""


def _proxies(settings: ElementTree.Element, repository: str) -> dict[str, str]:
    host = urllib.parse.urlsplit(repository).hostname or ""
    for proxy in settings.findall("proxies/proxy"):
        if proxy.findtext("active", "true").strip() != "true":
            continue
        if any(_matches(host, pattern) for pattern in proxy.findtext("nonProxyHosts", "").split("|")):
            continue
        name = proxy.findtext("host", "").strip()
        address = f"{name}:{proxy.findtext('port', '8080').strip()}"
        user = proxy.findtext("username", "").strip()
        if user:
            secret = urllib.parse.quote(proxy.findtext("password", ""), safe="")
            address = f"{urllib.parse.quote(user, safe='')}:{secret}@{address}"
        return {"http": f"http://{address}", "https": f"http://{address}"}
    return {}


def _matches(host: str, pattern: str) -> bool:
    """Maven's patterns: a name, or a name with `*` at one end."""
    pattern = pattern.strip()
    if pattern.startswith("*"):
        return host.endswith(pattern[1:])
    if pattern.endswith("*"):
        return host.startswith(pattern[:-1])
    return bool(pattern) and host == pattern
