"""`python -m console`: serve the console until SIGTERM. Settings: environment variables MNEMA_CONSOLE_*."""

from console.serving import serve_console
from console.settings import ConsoleSettings

if __name__ == "__main__":
    serve_console(ConsoleSettings())
