"""docs/REST.md has every path of REST, and its examples are as the OpenAPI document says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.support.answers import check_answer
from tools.openapi import document

PAGE = (Path(__file__).parent.parent.parent / "docs" / "REST.md").read_text()


_DOCUMENT = document()


def _name(schema: dict[str, Any]) -> str:
    """What the page calls a schema; that of the body where it is an envelope."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name.startswith("Envelope_"):
            return _name(_DOCUMENT["components"]["schemas"][name]["properties"]["body"])
        return f"`{name}`"
    if schema.get("type") == "array":
        return f"list of {_name(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_name(schema['additionalProperties'])}"
    return str(schema.get("type", ""))


def _rows() -> list[str]:
    """The page's row of each operation: its method, path, purpose and answer."""
    found = []
    for path, operations in _DOCUMENT["paths"].items():
        for method, operation in operations.items():
            purpose = operation["description"].partition("\n")[0]
            (content,) = operation["responses"]["200"]["content"].items()
            answer = "text" if content[0].startswith("text/") else _name(content[1]["schema"])
            found.append(f"| {method.upper()} | `{path}` | {purpose} | {answer} |")
    return found


def test_every_path_is_on_the_page() -> None:
    """The error is the rows to add and to remove."""
    shown = [line for line in PAGE.splitlines() if re.match(r"\| [A-Z]+ \| `/", line)]
    rows = _rows()
    assert len(rows) > 40
    assert sorted(set(rows) - set(shown)) == []
    assert sorted(set(shown) - set(rows)) == []
    assert len(shown) == len(rows)


def test_examples_are_as_the_document_says() -> None:
    """The request's method and path, and the answer below it."""
    examples = re.findall(r"```\n\$ curl (.+)\n((?:.+\n)+?)```", PAGE)
    assert len(examples) >= 6
    for request, answer in examples:
        method = re.search(r"-X (\w+)", request)
        path = re.search(r"http://localhost:8082([^\s']*)", request)
        status = re.search(r'^{"status": (\d+)', answer)
        assert path is not None, request
        code = int(status[1]) if status else 200
        check_answer(method[1] if method else "GET", unquote(path[1]), answer.encode(), code)
