"""The settings of a starting process, or one error with all invalid settings."""

from pydantic import ValidationError
from pydantic_settings import SettingsError
from yaml import YAMLError

from app.config.settings import Settings
from app.domain.errors import ConfigError, MnemaError


def read_settings() -> Settings:
    """Read the settings of this process. Raise ConfigError, which names the invalid settings but never a value."""
    try:
        return Settings()
    except ValidationError as error:
        wrong = (f"MNEMA_{'_'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in error.errors())
        raise ConfigError("; ".join(wrong)) from None
    except SettingsError as error:  # names the field; the value is in its cause
        raise ConfigError(str(error)) from None
    except (OSError, UnicodeDecodeError, YAMLError) as error:  # a YAMLError quotes the file
        raise ConfigError(f"settings.yaml or a file of secrets cannot be read ({type(error).__name__})") from None


def refusal_line(error: MnemaError) -> str:
    """Return the one line that a process prints if it cannot start."""
    return f"error {error.code}: {' '.join(error.detail.split())}"
