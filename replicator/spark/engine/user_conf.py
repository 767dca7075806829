"""What the user has set for Spark, found without a JVM: our own settings are defaults, for what is not among it."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shlex
from pathlib import Path
from typing import Final

from replicator.errors import ConfigError

__all__ = ["configures_logging", "user_conf"]

_DEFAULTS: Final = "spark-defaults.conf"
#: A line of a Java properties file: name and value, with `=`, `:` or blanks between.
_LINE = re.compile(r"^[ \t]*([^#!\s=:][^\s=:]*)[ \t]*[=: \t][ \t]*(.*?)[ \t]*$", re.MULTILINE)


def user_conf() -> dict[str, str]:
    """Spark's settings, from spark-submit, or as it would have them: its arguments, then files, then `MASTER`.

    Raises:
        ConfigError: they are those of a Spark Connect client, or a file of theirs cannot be read.
    """
    found = _submitted() if "PYSPARK_GATEWAY_PORT" in os.environ else _of_files()
    remote = {"SPARK_REMOTE": os.environ.get("SPARK_REMOTE"), "spark.remote": found.get("spark.remote")}
    for name, value in remote.items():
        if value:
            raise ConfigError(
                f"{name} = {value!r}: Spark Connect cannot run the jobs, which are made of RDDs",
                hint="unset it, and give the cluster's own master",
            )
    return found


def _submitted() -> dict[str, str]:
    """The settings of the JVM that spark-submit has started."""
    core = importlib.import_module("pyspark")
    core.SparkContext._ensure_initialized()  # noqa: SLF001 - else a `SparkConf` does not read that JVM's
    return dict(core.SparkConf().getAll())


def _of_files() -> dict[str, str]:
    arguments = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("master", "name", "remote", "properties-file"):
        arguments.add_argument(f"--{name}")
    arguments.add_argument("--conf", "-c", action="append", default=[])
    given, _ = arguments.parse_known_args(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")))
    own = {"spark.master": given.master, "spark.app.name": given.name, "spark.remote": given.remote}
    return {
        **({"spark.master": os.environ["MASTER"]} if "MASTER" in os.environ else {}),
        **_properties(Path(given.properties_file) if given.properties_file else _directory() / _DEFAULTS),
        **dict(each.split("=", 1) for each in given.conf if "=" in each),
        **{name: value for name, value in own.items() if value},
    }


def configures_logging() -> bool:
    """Whether the user says what Spark logs."""
    return any(_directory().glob("log4j2*"))


def _directory() -> Path:
    if "SPARK_CONF_DIR" in os.environ:
        return Path(os.environ["SPARK_CONF_DIR"])
    home = os.environ.get("SPARK_HOME") or Path(str(importlib.import_module("pyspark").__file__)).parent
    return Path(home) / "conf"


def _properties(file: Path) -> dict[str, str]:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file} cannot be read ({error})", hint="make it readable, or set SPARK_CONF_DIR"
        ) from None
    return dict(_LINE.findall(re.sub(r"\\\n[ \t]*", "", text)))
