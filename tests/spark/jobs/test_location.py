"""Where archives are: files appear whole or not at all, and errors of stores are one line without secrets."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from replicator.errors import ConfigError
from replicator.spark.jobs.location import Location
from tests.support.guarded import shown
from tests.support.s3 import S3, SECRET


@pytest.fixture(params=["path", "file", "s3"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """An empty one, on each kind of store."""
    if request.param == "s3":
        return Location.of(request.getfixturevalue("s3").uri("bucket/some/archive"))
    directory = tmp_path / "some archive"
    return Location.of(str(directory) if request.param == "path" else directory.as_uri())


def test_a_file_appears_when_it_is_whole(location: Location) -> None:
    """Also for a process that is given the location; what was begun and left is not a file."""
    other = pickle.loads(pickle.dumps(location))
    assert other.names() == []
    assert other.read("a/b") is None
    half = location.create("a/half")
    half.write(b"lost")
    with location.create("a/b") as file:
        file.write(b"x" * 10)
    location.closed("a/b")
    location.publish(["a/b"])
    assert other.sizes(["a/b", "a/half"]) == [10, None]
    assert [name for name in other.names() if not Path(name).name.startswith(".")] == ["a/b"]
    with other.open("a/b") as file:
        assert file.read() == b"x" * 10
    half.close()
    location.remove(["a/half", "a/b", "none"])
    assert other.names() == []


def test_a_small_file_is_replaced(location: Location) -> None:
    """Nothing else is left of it."""
    for content in (b"old", b"new"):
        location.replace("_manifest.json", content)
        assert location.read("_manifest.json") == content
    assert location.names() == ["_manifest.json"]


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors have other working directories."""
    monkeypatch.chdir(tmp_path)
    assert str(Location.of("archive")) == str(tmp_path / "archive")
    assert Location.of((tmp_path / "a b").as_uri()) == Location.of("a b")


def test_errors_of_a_store_have_its_uri_and_no_secret(
    s3: S3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No such bucket, no rights, no server; also where the account is in the environment."""

    def refused(uri: str) -> str:
        location = Location.of(uri)
        with pytest.raises(OSError) as error:  # noqa: PT011 - its text is what is tested
            location.replace("x", b"")
        failed = str(location.failed("written", error.value))
        with pytest.raises(OSError) as error:  # noqa: PT011 - its text is what is tested
            location.read("x")
        read = str(location.failed("read", error.value))
        assert "\n" not in failed + read
        assert not shown(SECRET, failed, read, repr(location))
        return f"{failed}\n{read}"

    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    for uri in (s3.uri("none/x"), "s3://none/x"):
        said = refused(uri)
        assert "directory = 's3://none/x' cannot be written (NO_SUCH_BUCKET: " in said
        assert "directory = 's3://none/x' cannot be read (NO_SUCH_BUCKET: " in said
        assert said.endswith("check the bucket, the credentials and AWS_ENDPOINT_URL")
        with s3.refusing():
            assert "(INVALID_ACCESS_KEY_ID: " in refused(uri.replace("none", "bucket"))
    away = Location.of(s3.uri("bucket/x").replace(s3.host, "127.0.0.1:1"))
    with pytest.raises(OSError) as error:  # noqa: PT011 - its text is what is tested
        away.read("x")
    assert "'s3://bucket/x' cannot be read (NETWORK_CONNECTION: " in str(away.failed("read", error.value))
    (tmp_path / "file").touch()
    assert "(Not a directory)" in refused(str(tmp_path / "file" / "x"))


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("s3a://bucket/x", r"directory = 's3a://bucket/x': PyArrow calls it s3://"),
        ("ftp://host/x", r"directory = 'ftp://host/x' cannot be used \(Unrecognized filesystem type"),
        (
            "s3://k:s3/cr3t@bucket/x",
            r"directory = 's3://bucket/x' cannot be used \(Cannot parse URI: 's3://bucket/x'",
        ),
        ("s3://k:s3cr3t@bucket/x?no=1", r"'s3://bucket/x' cannot be used \(Unexpected query parameter .*'no'\)"),
        ("s3://k:s3cr3t@/x?region=r", r"directory = 's3:///x' "),
        ("s3://?region=r", r"directory = 's3://' names no directory: add a bucket"),
        (
            "hdfs://me@host/x",
            r"directory = 'hdfs://host/x' cannot be used \(HDFS takes its user from HADOOP_USER_NAME",
        ),
        (
            "hdfs://host/x?user=me",
            r"directory = 'hdfs://host/x' cannot be used \(such a URI has no parameters: HADOOP",
        ),
    ],
)
def test_what_is_no_place_for_an_archive(uri: str, problem: str) -> None:
    """Refused with the way out."""
    with pytest.raises(ConfigError, match=problem) as refused:
        Location.of(uri)
    assert not any(secret in str(refused.value) for secret in ("s3/cr3t", "s3cr3t"))


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("s3://KEY:SE/CR@ET@bucket/x?a=b", "s3://bucket/x"),
        ("hdfs://me@host:8020/a@b", "hdfs://host:8020/a@b"),
        ("hdfs://host:8020/a@b", "hdfs://host:8020/a@b"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
    ],
)
def test_the_text_of_a_location(uri: str, text: str) -> None:
    """Without account and parameters."""
    location: Any = Location(uri)
    assert str(location) == text
    assert location.at("x") == f"{text}/x"
