"""The settings of a starting process, or one error with all invalid settings."""

import re
from typing import Final, get_origin

from pydantic import ValidationError
from pydantic_settings import SettingsError
from yaml import YAMLError

from app.config.settings import Settings
from app.domain.errors import ConfigError, MnemaError

_FIELD: Final = re.compile(r'field "(\w+)"')
_SHAPES: Final = {dict: 'an object, such as {"name": "value"}', list: 'a list, such as ["value"]'}


def read_settings() -> Settings:
    """Read the settings of this process. Raise ConfigError, which names the invalid settings but never a value."""
    try:
        return Settings()
    except ValidationError as error:
        wrong = (f"MNEMA_{'_'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in error.errors())
        raise ConfigError("; ".join(wrong)) from None
    except SettingsError as error:  # names the field; the value is in its cause
        raise ConfigError(_describe_unparsed(str(error))) from None
    except (OSError, UnicodeDecodeError, YAMLError) as error:  # a YAMLError quotes the file
        raise ConfigError(f"settings.yaml or a file of secrets cannot be read ({type(error).__name__})") from None


def _describe_unparsed(told: str) -> str:
    """Return which variable is no JSON, and what it should be. `told`: the error of a settings source."""
    found = _FIELD.search(told)
    field = Settings.model_fields.get(found[1]) if found else None
    if found is None or field is None:
        return told
    shape = _SHAPES.get(get_origin(field.annotation) or dict, "a value")
    return f"MNEMA_{found[1].upper()}: is no JSON; it must be {shape}"


def refusal_line(error: MnemaError) -> str:
    """Return the one line that a process prints if it cannot start."""
    return f"error {error.code}: {' '.join(error.detail.split())}"
