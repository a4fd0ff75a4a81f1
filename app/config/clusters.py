"""The clusters of an installation, from the YAML file that MNEMA_CLUSTERS names (`docs/scaling.md`)."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import yaml
from pydantic import BaseModel, ByteSize, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError

from app.domain.errors import ConfigError

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,30}")
_FILE: Final = "_file"


class ClusterUrls(BaseModel):
    """One cluster. Servers need `database_url` alone; `mover_database_url` is how other clusters reach this one.

    `max_bytes`: the most that its database may take, such as `500GB`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    database_url: SecretStr
    read_database_url: SecretStr = SecretStr("")
    admin_database_url: SecretStr = SecretStr("")
    superuser_database_url: SecretStr = SecretStr("")
    mover_database_url: SecretStr = SecretStr("")
    region: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    max_bytes: Annotated[ByteSize, Field(gt=0)] | None = None


def load_clusters(file: Path) -> Mapping[str, ClusterUrls]:
    """Return the clusters by name, in the order of the file: the first one keeps the directory. Raise ConfigError.

    A key with `_file` behind it names a file with the value, such as `database_url_file`.
    """
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"MNEMA_CLUSTERS: {file} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"MNEMA_CLUSTERS: {file} is no YAML") from error
    if not isinstance(document, dict) or not document:
        raise ConfigError(f"MNEMA_CLUSTERS: {file} must have a name for each cluster, and its URLs below the name")
    for name in document:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(
                f"MNEMA_CLUSTERS: a name has up to 31 of a-z, 0-9 and _, and begins with a letter: {name!r}"
            )
    read = {name: _read_files(urls) for name, urls in document.items()}
    try:
        return TypeAdapter(dict[str, ClusterUrls]).validate_python(read)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        raise ConfigError(f"MNEMA_CLUSTERS: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _read_files(urls: Any) -> Any:
    if not isinstance(urls, dict):
        return urls
    read = {}
    for key, value in urls.items():
        if not str(key).endswith(_FILE):
            read[key] = value
            continue
        try:
            read[str(key).removesuffix(_FILE)] = Path(str(value)).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"MNEMA_CLUSTERS: {key}: {error}") from error
    return read
