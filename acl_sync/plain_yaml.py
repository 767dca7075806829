"""YAML as far as a broker's files of accounts need it: mappings and lists of texts, and nothing.

What YAML makes numbers or dates of is a name or a secret there. Aliases, which stand for a long list again and
again, could make a short file fill the memory.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

from acl_sync.acl1 import Unclear

__all__ = ["NotYaml", "load"]

_TAG: Final = "tag:yaml.org,2002:"
#: Numbers that are written in one way only.
_DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")


class NotYaml(Exception):
    """A text cannot be read; only where is said, nothing of its content. `line` counts from 1; 0: not known."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line


class _Loader(yaml.BaseLoader):
    """Takes each text as it is written, whatever it looks like and whatever tag it has."""

    yaml_implicit_resolvers = yaml.SafeLoader.yaml_implicit_resolvers

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias")
        return super().compose_node(parent, index)


def _number(loader: yaml.BaseLoader, node: yaml.ScalarNode) -> str:
    text = str(loader.construct_scalar(node))
    return text if _DECIMAL.fullmatch(text) else Unclear(text)


_Loader.add_constructor(f"{_TAG}null", lambda _loader, _node: None)
for _name in ("int", "float", "timestamp"):
    _Loader.add_constructor(f"{_TAG}{_name}", _number)


def load(text: str) -> Any:
    """What `text` says.

    Raises:
        NotYaml: it is none, uses aliases, or nests too deep.
    """
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - it makes texts alone
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # The error itself shows the line, which may be the one with the secret.
        mark = getattr(error, "problem_mark", None)
        raise NotYaml(0 if mark is None else mark.line + 1) from None
