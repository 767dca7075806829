"""Where settings come from: flags, environment, file. Every mistake is named at once, with its way out."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_settings import EnvSettingsSource

from replicator.errors import ConfigError
from replicator.settings.clusters import expand_cluster
from replicator.settings.mistakes import way_out
from replicator.settings.model import ENV_PREFIX, Settings, setting_fields
from replicator.settings.secret_file import others_can_use
from replicator.settings.shown import shown, without_user_info

__all__ = ["explain", "leaves", "load", "origins"]


#: Variables that commands read, besides settings.
_OF_COMMANDS: Final = ("SOURCE", "TARGET", "CONFIG", "MAVEN_REPOSITORY", "URL", "BACK_URL")
#: By these variables Kubernetes tells a container of the namespace's Services; where one is called `replicator…`,
#: they begin as settings do. One that ends in _PORT has a URL there: with a number it is a mistyped setting.
_OF_SERVICES: Final = re.compile(
    r"[A-Z0-9_]+(_SERVICE_HOST=|_SERVICE_PORT(_[A-Z0-9_]+)?="
    r"|_PORT(_\d+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://"
    r"|_PORT_\d+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=)"
)


class _Environment(EnvSettingsSource):
    """Values stay text: lists are comma lists here, as they are in flags."""

    def decode_complex_value(self, field_name: str, field: Any, value: Any) -> Any:
        return value

    def prepare_field_value(self, field_name: str, field: Any, value: Any, value_is_complex: bool) -> Any:
        if field_name in ("source", "target", "rest", "acl"):
            nested = self.explode_env_vars(field_name, field, self.env_vars)
            if not nested:
                return value
            return nested if value is None else {"namesrv": value, **nested}
        return value


def load(flags: Mapping[str, Any], *, file: Path | None, defaults: Mapping[str, Any] | None = None) -> Settings:
    """The settings in force.

    Args:
        flags: nested values given on the command line.
        file: TOML.
        defaults: nested values that count where nobody has given others.

    Raises:
        ConfigError: every mistake, one a line: field, value, way out.
    """
    merged: dict[str, Any] = {}
    _merge(merged, defaults or {})
    for _, values in reversed([*_layers(flags, file)]):
        _merge(merged, values)
    try:
        return Settings(**merged)
    except ValidationError as error:
        raise ConfigError("\n".join(explain(error))) from None


def origins(flags: Mapping[str, Any], *, file: Path | None) -> Mapping[str, str]:
    """Where each value in force came from: dotted name to `flag`, `environment` or the file's name."""
    found: dict[str, str] = {}
    for layer, values in _layers(flags, file):
        for name in leaves(values):
            found.setdefault(name, layer)
    return found


def _layers(flags: Mapping[str, Any], file: Path | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Highest precedence first."""
    yield "flag", _expanded(dict(flags))
    _refuse_unknown_variables()
    yield "environment", _expanded(_Environment(Settings)())
    if file is not None:
        yield str(file), _expanded(_read_file(file))


def _expanded(values: dict[str, Any]) -> dict[str, Any]:
    """A cluster given by its name servers alone, as the table that it stands for."""
    return {
        name: expand_cluster(value) if name in ("source", "target") else value for name, value in values.items()
    }


def _read_file(file: Path) -> dict[str, Any]:
    try:
        with file.open(encoding="utf-8") as opened:
            text, found = opened.read(), os.fstat(opened.fileno())
        if text.startswith("\ufeff"):
            raise ConfigError(
                f"config = {str(file)!r} begins with a byte order mark", hint="save it as UTF-8 without one"
            )
        values = _parse_toml(file, text)
    except OSError as error:
        raise ConfigError(
            f"config = {str(file)!r} cannot be read ({error.strerror})", hint="name a readable TOML file"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"config = {str(file)!r} is not valid TOML ({error})", hint="fix the file") from None
    secret = next(filter(_secrets().__contains__, leaves(_expanded(values))), None)
    if secret is not None and others_can_use(found):
        raise ConfigError(f"config = {str(file)!r} has {secret} and can be read by others", hint="chmod 600 it")
    return values


def _secrets(model: type[BaseModel] = Settings) -> frozenset[str]:
    """The dotted names of settings that never show."""
    return frozenset(name for name, field in setting_fields(model) if SecretStr in get_args(field.annotation))


def _parse_toml(file: Path, text: str) -> dict[str, Any]:
    """TOML's integers have 64 bits, and `tomllib` lets longer ones pass."""
    try:
        values = tomllib.loads(text)
        reason = "" if _integers_fit(values) else "it has an integer of more than 64 bits"
    except RecursionError:
        reason = "it is nested too deep"
    except ValueError as error:
        reason = str(error)
    if reason:
        raise ConfigError(f"config = {str(file)!r} is not valid TOML ({reason})", hint="fix the file")
    return values


def _integers_fit(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_integers_fit, value.values()))
    if isinstance(value, list):
        return all(map(_integers_fit, value))
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def _merge(into: dict[str, Any], values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, Mapping) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = dict(value) if isinstance(value, Mapping) else value


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The dotted names of all values in a nested mapping."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name


def _refuse_unknown_variables() -> None:
    known = {ENV_PREFIX + name.replace(".", "__").upper() for name, _ in setting_fields()}
    known |= {f"{ENV_PREFIX}{name}" for name in _OF_COMMANDS}
    unknown = [
        name
        for name in sorted(os.environ)
        if name.upper().startswith(ENV_PREFIX) and name.upper() not in known and not _names_a_service(name)
    ]
    if unknown:
        raise ConfigError(
            "\n".join(
                f"the environment has {name}, which is not a setting: {_closest(name.upper(), known)}"
                for name in unknown
            )
        )


def _names_a_service(name: str) -> bool:
    """Whether Kubernetes has set a variable, and nobody else; what is nested as settings are is meant as one."""
    nested = "__" in name.removeprefix(ENV_PREFIX)
    return not nested and _OF_SERVICES.match(f"{name}={os.environ[name]}") is not None


def _closest(name: str, known: set[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else "see `replicator config check`"


def explain(error: ValidationError, model: type[BaseModel] = Settings) -> Iterator[str]:
    """One line for each mistake: field, value, way out."""
    names = {*dict(setting_fields(model)), "source", "target"}
    secrets = tuple(_secrets(model))
    for problem in error.errors():
        parts = (part for part in problem["loc"] if isinstance(part, str))  # the value says which one of a list
        name = ".".join(part for part in parts if part != "function-before")
        kind, value = problem["type"], problem.get("input")
        if kind == "extra_forbidden":
            yield f"{name} is not a setting: {_closest(name, names)}"
        elif kind == "missing" and model is not Settings:
            yield f"{name} is missing: it has no default"
        elif kind == "missing":
            flag = name.removesuffix(".namesrv").replace("_", "-").replace(".", "-")
            yield f"{name} is missing: give --{flag}, or set it in the file or the environment"
        else:
            message = without_user_info(way_out(problem))
            yield f"{name or 'settings'}{'' if name.startswith(secrets) else shown(value)}: {message}"
