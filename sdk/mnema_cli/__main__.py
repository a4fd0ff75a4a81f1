"""The commands of the client alone: `python -m mnema_cli`. The command `mnema` of a server has these and more."""

from mnema_cli.commands import COMMANDS
from mnema_cli.lazy import build_application

app = build_application(
    COMMANDS,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Memory for AI agents: commands of a client. MNEMA_URL and MNEMA_API_KEY name the server.",
)

if __name__ == "__main__":
    app()
