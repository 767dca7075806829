"""Who may do what over REST: roles by token, names of this machine, pages of other sites."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.api.access import Role, Tokens, foreign_host, foreign_origin, is_page, required, takes_password
from tools.openapi import document


def test_every_path_has_a_role() -> None:
    """What changes nothing is to read; connectors and brokers themselves are the admin's; all else to operate."""
    found: dict[Role, set[str]] = {role: set() for role in Role}
    for path, operations in document()["paths"].items():
        for method in operations:
            found[required(method.upper(), path)].add(f"{method} {path}")
    admin = {f"{method} /connectors/{{name}}" for method in ("post", "put", "delete")}
    admin.add("post /brokers/{side}/{name}/forget")
    assert found[Role.ADMIN] == admin
    assert {each for each in found[Role.READ] if not each.startswith("get ")} == {"put /plugin/config/validate"}
    assert {
        "put /log/level",
        "post /connectors/{name}/restart",
        "post /connectors/{name}/failover",
        "put /connectors/stop/all",
    } <= found[Role.OPERATE]


def test_a_token_has_a_role() -> None:
    tokens = Tokens(admin="a", operate="o", read="r")
    for token, role in (("a", Role.ADMIN), ("o", Role.OPERATE), ("r", Role.READ), ("x", None), ("", None)):
        assert tokens.role_of(f"Bearer {token}") is role
        assert tokens.role_of(f"bearer  {token} ") is role
        assert tokens.role_of(f"Basic {token}") is None
    assert Tokens(read="r").role_of("Bearer None") is None
    assert "a" not in repr(tokens).removeprefix("Tokens")
    assert tokens
    assert not Tokens()


@pytest.mark.parametrize("text", ["anybody:o", ":o", "a:o"])
def test_a_token_may_be_a_password(text: str) -> None:
    """Only where that is asked for, with any user name."""
    header = "Basic " + base64.b64encode(text.encode()).decode()
    tokens = Tokens(admin="a", operate="o")
    assert tokens.role_of(header, password=True) is Role.OPERATE
    assert tokens.role_of(header.replace("Basic", "bASIC"), password=True) is Role.OPERATE
    assert tokens.role_of(header) is None


@pytest.mark.parametrize("text", ["", "!", "bzo=", "b w==", "\u00fc"])
def test_what_is_no_password_has_no_role(text: str) -> None:
    assert Tokens(admin="a", operate="o").role_of(f"Basic {text}", password=True) is None


def test_the_page_is_at_the_root_and_below_page() -> None:
    assert [path for path in ("/", "/page/x", "/page", "/pages", "/events", "/status", "//") if is_page(path)] == [
        *("/", "/page/x")
    ]
    assert takes_password("/events")
    assert not takes_password("/connectors/list")
    assert required("POST", "/page/connectors/route/pause") is Role.OPERATE
    assert required("POST", "/page/connectors/route/config") is Role.ADMIN
    assert required("GET", "/page/connector") is Role.READ


@pytest.mark.parametrize(
    "path", ["/brokers/target/b/forget", "/page/connectors/r/config", "/connectors/r", "/log/x"]
)
def test_what_is_not_known_is_the_admins(path: str) -> None:
    """Starlette's own patterns let a line break through at their end."""
    assert required("POST", path) is Role.ADMIN
    assert required("POST", path + "\n") is Role.ADMIN


@given(st.text(max_size=20))
def test_no_other_token_has_one(text: str) -> None:
    assert Tokens(admin="the-token").role_of(f"Bearer {text}") is None


@pytest.mark.parametrize(
    ("host", "foreign"),
    [
        ("localhost:8082", False),
        ("127.0.0.1", False),
        ("127.8.8.8:1", False),
        ("[::1]:8082", False),
        ("LOCALHOST", False),
        ("ours", False),
        ("", False),
        ("evil.example", True),
        ("evil.example:8082", True),
        ("localhost.evil.example", True),
        ("10.0.0.1", True),
        ("x/metrics?", True),
        ("x/metrics#", True),
        ("localhost/", True),
        ("user@localhost", True),
        ("localhost:port", True),
        ("localhost\nx", True),
    ],
)
def test_a_name_that_is_not_ours_is_foreign(host: str, *, foreign: bool) -> None:
    assert foreign_host(host, "ours") == foreign


@pytest.mark.parametrize(
    ("method", "origin", "site", "foreign"),
    [
        ("POST", None, None, False),
        ("POST", "http://localhost:8082", "same-origin", False),
        ("GET", "http://localhost:8082", None, False),
        ("POST", "http://evil.example", None, True),
        ("GET", "http://evil.example", None, True),
        ("POST", "null", None, True),
        ("POST", "http://localhost:9999", None, True),
        ("POST", "http://localhost:8082.evil.example", None, True),
        ("POST", None, "cross-site", True),
        ("POST", None, "same-site", True),
        ("GET", None, "cross-site", False),
        ("POST", None, "none", False),
    ],
)
def test_a_page_of_another_site_is_foreign(
    method: str, origin: str | None, site: str | None, *, foreign: bool
) -> None:
    assert foreign_origin(method, "localhost:8082", origin, site) == foreign
