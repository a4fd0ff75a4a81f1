"""The command `mnema`."""

import os
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points, version
from typing import Annotated

import typer
from mnema_cli.commands import COMMANDS as CLIENT_COMMANDS
from mnema_cli.installation import Installation, use_installation
from mnema_cli.lazy import LazyCommand, build_application

COMMANDS = (
    LazyCommand("up", "app.cli.up:start_installation", "Start everything on this machine and serve until Ctrl-C."),
    LazyCommand("down", "app.cli.up:stop_installation", "Stop everything that `mnema up` started."),
    LazyCommand("status", "app.cli.status:print_status", "Show what is running."),
    LazyCommand("serve", "app.cli.serve:serve", "Serve the HTTP API until SIGTERM."),
    LazyCommand("migrate", "app.cli.administration:migrate_schema", "Migrate the schema to the newest version."),
    LazyCommand("doctor", "app.cli.administration:run_doctor", "Check this installation and say how to repair it."),
    *CLIENT_COMMANDS,
    LazyCommand("source", "app.cli.sources:source_app", "Documents: folders and uploaded files. See docs/sources.md."),
    LazyCommand("mcp", "app.cli.mcp:serve_mcp", "Serve MCP on stdin and stdout."),
    LazyCommand("run", "app.cli.run:run_job", "Run a background job now."),
    LazyCommand("jobs", "app.cli.jobs:jobs_app", "Background jobs."),
    LazyCommand("cluster", "app.cli.clusters:cluster_app", "The clusters of MNEMA_CLUSTERS."),
    LazyCommand("tenant", "app.cli.tenants:tenant_app", "Tenants, with their rules and chat endpoints."),
    LazyCommand("key", "app.cli.keys:key_app", "API keys."),
    LazyCommand("secret", "app.cli.administration:secret_app", "The installation's secret, MNEMA_SECRET_KEY."),
    LazyCommand(
        "embeddings",
        "app.cli.embeddings:embeddings_app",
        "Embedding models: add, migrate, switch and drop their vectors.",
    ),
    LazyCommand("reranker", "app.cli.reranker:reranker_app", "The reranking model."),
    LazyCommand("llm", "app.cli.llm:llm_app", "The chat model."),
)


def find_installed_groups() -> Iterator[LazyCommand]:
    """Yield the command groups of other installed packages, such as `mnema bench` of a checkout."""
    for group in entry_points(group="mnema.commands"):
        owner = group.dist.name if group.dist else group.module
        yield LazyCommand(group.name, group.value, f"Commands of {owner}: {group.module}.")


def _open_local() -> Installation:
    from app.cli.installation import LocalInstallation  # not needed for help

    return LocalInstallation()


use_installation(_open_local)
app = build_application(
    (*COMMANDS, *find_installed_groups()),
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Memory for AI agents, on PostgreSQL.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mnema {version('mnema-server')}")
        raise typer.Exit()


@app.callback()
def _take_options(
    wanted: Annotated[
        bool, typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Memory for AI agents, on PostgreSQL."""


def main() -> None:
    """Run the command line. Report an unexpected error as one line; MNEMA_DEBUG=1 shows its traceback."""
    try:
        app()
    except Exception as error:
        if os.environ.get("MNEMA_DEBUG"):
            raise
        from mnema_cli.output import error_text, exit_with_error  # not needed for help

        try:
            exit_with_error(error_text(error))
        except typer.Exit as leaving:
            sys.exit(leaving.exit_code)


if __name__ == "__main__":
    main()
