"""Writes docs/CONFIG.md from the settings themselves; a test holds the two together."""

from __future__ import annotations

from pathlib import Path

from pydantic_core import PydanticUndefined

from replicator.settings import ENV_PREFIX, setting_fields

PAGE = Path(__file__).parent.parent / "docs" / "CONFIG.md"

_HEAD = """# Settings

Made by `python -m tools.config_page` from the program's own settings.

Each has one name as a flag, a TOML key (`--config route.toml`) and an environment variable. A flag wins over
the environment, that over the file, that over the default. `replicator config check` shows what is in force
and where it came from. Lists are separated by commas (in TOML they may be lists); sizes take KiB, MiB, GiB.

| flag | TOML key | environment | default | meaning |
|---|---|---|---|---|
"""

_TAIL = """
`source` and `target` may also be given as the name servers alone: `source = "10.0.0.1:9876"`. Secret keys and tokens have no flag,
since flags can be seen in the list of processes; a `secret_key_file` or `rest.token_file` must not be readable by others.

Each of `transforms` is the name of an installed one, with its configuration behind a question mark where it takes one:
`name?key=value&key=value`, the same on the command line, in the file, in the environment and over REST. `%2C` stands for a
comma, `%26` for `&`, `%2B` for `+`, `%25` for `%`. No secrets belong there: all workers and REST show it.
[How to write one](TRANSFORMS.md).

## Exit codes

| code | meaning |
|---|---|
| 0 | drained after SIGTERM or SIGINT |
| 2 | unknown flag or command |
| 3 | it could not start: a cluster, a port or the store path cannot be used; nothing was written to either cluster |
| 4 | it was told to stop, and not all that was pulled could be sent within `drain_timeout`; whoever goes on copies it |
| 78 | a setting is wrong; every mistake is named, one a line |
| 130, 143 | a second SIGINT or SIGTERM ended it before all was drained |
| 1 | anything else: a bug, please tell us |
"""


def page() -> str:
    """The page as it should be."""
    rows = []
    for name, field in setting_fields():
        secret = name.endswith(("secret_key", "rest.token"))
        flag = "none" if secret else f"`--{name.removesuffix('.namesrv').replace('.', '-').replace('_', '-')}`"
        default = "" if field.default is PydanticUndefined or field.default is None else field.default
        shown = ",".join(default) if isinstance(default, list) else str(default)
        variable = ENV_PREFIX + name.replace(".", "__").upper()
        shown = f"`{shown}`" if shown else ""
        rows.append(f"| {flag} | `{name}` | `{variable}` | {shown} | {field.description} |\n")
    return _HEAD + "".join(rows) + _TAIL


if __name__ == "__main__":
    PAGE.write_text(page())
