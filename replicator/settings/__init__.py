"""All settings: the same names as flags, TOML keys and environment variables.

Precedence: flag, environment (`REPLICATOR_`, `__` for nesting), file (`--config`), default. Secrets come
from the environment or from files, never from flags.
"""

from replicator.settings.acl import AclSettings
from replicator.settings.clusters import ClusterSettings, SocksSettings, TlsSettings, valid_id
from replicator.settings.loading import explain, leaves, load, origins
from replicator.settings.model import ENV_PREFIX, Settings, setting_fields
from replicator.settings.rest import RestSettings, RestTls
from replicator.settings.route import RouteSettings, milliseconds, topic_name
from replicator.settings.sections import SECTIONS, section_of
from replicator.settings.sizes import is_size, size_text

__all__ = [
    "ENV_PREFIX",
    "SECTIONS",
    "AclSettings",
    "ClusterSettings",
    "RestSettings",
    "RestTls",
    "RouteSettings",
    "Settings",
    "SocksSettings",
    "TlsSettings",
    "explain",
    "is_size",
    "leaves",
    "load",
    "milliseconds",
    "origins",
    "section_of",
    "setting_fields",
    "size_text",
    "topic_name",
    "valid_id",
]
