"""What the user has set for Spark wins over our defaults, wherever it stands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from replicator.errors import ConfigError
from replicator.spark.engine.java import java_home
from replicator.spark.engine.user_conf import user_conf

#: What a session of ours has, as JSON in a line of its own.
SHOWN = """
import json
from replicator.spark.engine.session import session
with session() as spark:
    conf = dict(spark.sparkContext.getConf().getAll())
    beans = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    level = spark.sparkContext._jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString()
    print("\\n" + json.dumps({**conf, "jvm": list(beans), "level": level, "ui": spark.sparkContext.uiWebUrl}))
"""


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`spark-defaults.conf` of the user's, where nothing else is set."""
    for name in ("PYSPARK_SUBMIT_ARGS", "MASTER", "SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    return tmp_path / "spark-defaults.conf"


def test_settings_are_found_where_spark_finds_them(
    conf: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Arguments win over files, and files over `MASTER`."""
    assert user_conf() == {}
    monkeypatch.setenv("MASTER", "local[7]")
    assert user_conf() == {"spark.master": "local[7]"}
    conf.write_text("# comment\nspark.master  local[2]\n spark.a=b c \nspark.x: \\\n  y\n!no no\nspark.empty =\n")
    assert user_conf() == {"spark.master": "local[2]", "spark.a": "b c", "spark.x": "y", "spark.empty": ""}
    arguments = (
        "--verbose --master spark://h:1 --conf spark.a=d=e --driver-memory 1g -c 'spark.f=g h' pyspark-shell"
    )
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
    found = user_conf()
    assert (found["spark.master"], found["spark.a"], found["spark.f"]) == ("spark://h:1", "d=e", "g h")
    other = tmp_path / "other.conf"
    other.write_text("spark.other 1\n")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file {other} pyspark-shell")
    assert user_conf() == {"spark.master": "local[7]", "spark.other": "1"}


def test_spark_connect_is_refused(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no RDDs: said before anything begins."""
    conf.write_text("spark.remote sc://host\n")
    with pytest.raises(ConfigError, match=r"spark.remote = 'sc://host': Spark Connect cannot run"):
        user_conf()
    monkeypatch.setenv("SPARK_REMOTE", "sc://other")
    with pytest.raises(ConfigError, match=r"SPARK_REMOTE = 'sc://other': Spark Connect cannot run"):
        user_conf()


def test_a_file_that_cannot_be_read_is_named(conf: Path) -> None:
    conf.write_bytes(b"spark.a \xff\n")
    with pytest.raises(ConfigError, match=rf"{conf} cannot be read"):
        user_conf()


def shown(*command: str, **environment: str) -> dict[str, Any]:
    whole = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **environment}
    if (home := java_home()) is not None:
        whole["JAVA_HOME"] = str(home)
    ended = subprocess.run(command, env=whole, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    return found


USERS = """
spark.master local[3]
spark.app.name mine
spark.ui.enabled true
spark.ui.port 0
spark.ui.showConsoleProgress true
spark.log.level WARN
spark.driver.defaultJavaOptions -Dmine=1
"""


@pytest.mark.spark
def test_a_session_has_the_users_settings(conf: Path, tmp_path: Path) -> None:
    """Of `spark-defaults.conf`, and of spark-submit, whose own win; ours are for what they do not say."""
    conf.write_text(USERS)
    found = shown(sys.executable, "-c", SHOWN)
    assert {name: found[name] for name in ("spark.master", "spark.app.name", "level")} == {
        "spark.master": "local[3]",
        "spark.app.name": "mine",
        "level": "WARN",
    }
    assert found["ui"] is not None
    assert found["spark.ui.showConsoleProgress"] == "true"
    assert "-Dmine=1" in found["jvm"]
    assert "-XX:TieredStopAtLevel=1" not in found["jvm"]

    conf.write_text("spark.log.level WARN\n")
    script = tmp_path / "script.py"
    script.write_text(SHOWN)
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    flags = ("--master=local[2]", "--name", "submitted", "--conf", "spark.ui.showConsoleProgress=true")
    found = shown(submit, *flags, str(script), PYSPARK_PYTHON=sys.executable, PYTHONPATH=os.pathsep.join(sys.path))
    assert (found["spark.master"], found["spark.app.name"]) == ("local[2]", "submitted")
    assert (found["level"], found["ui"], found["spark.ui.showConsoleProgress"]) == ("WARN", None, "true")


QUIET = """
from replicator.spark.engine.session import session
with session() as spark:
    print(spark.sparkContext.parallelize([0, 1], 2).map(lambda number: 1 // number).collect())
"""


@pytest.mark.spark
def test_a_terminal_is_shown_errors_alone(conf: Path) -> None:
    """Not what Spark says of itself at its start, but for one line of the JVM; as the user wants it, if at all."""

    def said() -> list[str]:
        ended = subprocess.run([sys.executable, "-c", QUIET], capture_output=True, text=True, check=False)
        assert "ZeroDivisionError" in ended.stderr
        return ended.stderr.splitlines()

    assert not conf.exists()
    lines = [line for line in said() if not line.startswith("WARNING: Using incubator modules")]
    assert " ERROR Executor: Exception in task" in lines[0]
    (conf.parent / "log4j2.properties").write_text(
        "rootLogger.level = warn\nrootLogger.appenderRef.stderr.ref = console\nappender.console.type = Console\n"
        "appender.console.name = console\nappender.console.target = SYSTEM_ERR\n"
        "appender.console.layout.type = PatternLayout\nappender.console.layout.pattern = mine %p %m%n%ex\n"
    )
    assert any(line.startswith("mine ERROR ") for line in said())
