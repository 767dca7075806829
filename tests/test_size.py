"""No module and no function is longer than can be read at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("replicator", "acl_sync", "pyspark_rocketmq", "tools", "bench", "tests")
#: Lines of a module, and those of a function without its docstring.
MODULE, FUNCTION = 400, 70


def too_long(text: str) -> Iterator[str]:
    """What is too long in a module, with its lines."""
    if (lines := len(text.splitlines())) > MODULE:
        yield f"the module: {lines}"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = height(node) - (height(node.body[0]) if ast.get_docstring(node) is not None else 0)
            if lines > FUNCTION:
                yield f"{node.name}: {lines}"


def height(node: ast.stmt) -> int:
    """Lines of a statement, without decorators."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_nothing_is_too_long() -> None:
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert len(paths) > 500
    found = {str(path.relative_to(ROOT)): [*too_long(path.read_text(encoding="utf-8"))] for path in paths}
    assert {path: why for path, why in found.items() if why} == {}


def test_lines_are_counted() -> None:
    """Those of a docstring are not."""
    body = "    pass\n" * FUNCTION
    assert [*too_long(f'def f():\n    """One.\n\n    Two.\n    """\n{body[9:]}')] == []
    assert [*too_long(f"async def f():\n{body}")] == [f"f: {FUNCTION + 1}"]
    assert [*too_long("\n" * (MODULE + 1))] == [f"the module: {MODULE + 1}"]
