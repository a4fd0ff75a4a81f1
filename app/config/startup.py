"""The settings of a process that is starting, or one error that says what is wrong with them."""

from pydantic import ValidationError
from pydantic_settings import SettingsError
from yaml import YAMLError

from app.config.settings import Settings
from app.domain.errors import ConfigError, MnemaError


def read_settings() -> Settings:
    """The settings of this process. Raises ConfigError, which names settings and never a value."""
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
    """The one line with which a process says that it does not start."""
    return f"error {error.code}: {' '.join(error.detail.split())}"
