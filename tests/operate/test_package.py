"""What Spark's executors are given."""

from __future__ import annotations

from collections import Counter

from replicator.operate import package


def test_each_file_is_packed_once() -> None:
    """Also those of packages whose dependents write their names differently; the package itself is among them."""
    names = Counter(name for name, _ in package._files())
    assert {"replicator/__init__.py", "pyarrow/__init__.py", "typing_extensions.py"} <= names.keys()
    assert [name for name, count in names.items() if count > 1] == []
    assert not any(name.startswith(("pyspark/", "py4j/")) for name in names)
