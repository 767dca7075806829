"""HDFS as a file system of PyArrow's, by hdfs-native, which needs no Java and nothing of Hadoop's."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from pyarrow import fs

from replicator.errors import StartupError
from replicator.extras import install_command

__all__ = ["hdfs"]

#: hdfs-native would look for a name node for minutes. These are some 15 s, with those of a high-available one.
_PATIENCE: Final = {
    "dfs.client.failover.max.attempts": "6",
    "dfs.client.failover.sleep.base.millis": "300",
    "dfs.client.failover.sleep.max.millis": "5000",
}


def hdfs(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of `hdfs://[host[:port] or name service]/path`, and the path.

    What HADOOP_CONF_DIR or HADOOP_HOME name holds, as for Hadoop's own clients; so does HADOOP_USER_NAME.

    Raises:
        StartupError: hdfs-native is not installed.
        ValueError: the URI has more than that.
        OSError: the name service is not configured.
    """
    try:
        from hdfs_native import FileReader, FileWriter  # noqa: PLC0415 - an extra
        from hdfs_native.fsspec import HdfsFileSystem  # noqa: PLC0415
    except ImportError:
        raise StartupError("hdfs:// needs hdfs-native", hint=install_command("hdfs")) from None

    class Replacing(HdfsFileSystem):
        """A file that gets the name of another one replaces it, in one step of the name node."""

        def mv(self, path1: str, path2: str, **_: Any) -> None:
            super().mv(path1, path2, overwrite=True)

    parts = urlsplit(uri)
    if parts.username is not None:
        raise ValueError("HDFS takes its user from HADOOP_USER_NAME or Kerberos, not from the URI")
    if parts.query or parts.fragment:
        raise ValueError("such a URI has no parameters: HADOOP_CONF_DIR says the rest")
    place = Replacing(host=parts.hostname, port=parts.port, **_PATIENCE)
    setattr(place, "client", _Asked(place.client, (FileReader, FileWriter)))  # noqa: B010 - it is no Client
    return fs.PyFileSystem(fs.FSSpecHandler(place)), parts.path


class _Asked:
    """Something of hdfs-native's: what a name node refuses is an `OSError`, of which it makes a `RuntimeError`.

    Args:
        files: the types of what it opens, to which the same applies.
    """

    def __init__(self, asked: Any, files: tuple[type, ...] = ()) -> None:
        self._asked = asked
        self._files = files

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._asked, name)
        if not callable(found):
            return found

        def ask(*arguments: Any, **options: Any) -> Any:
            try:
                answer = found(*arguments, **options)
            except RuntimeError as error:
                raise OSError(str(error)) from None
            return _Asked(answer) if isinstance(answer, self._files) else answer

        return ask
