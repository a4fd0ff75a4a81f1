"""The command `mnema`."""

import os
import sys
from importlib.metadata import entry_points

import typer

from app.cli import (
    embeddings,
    facts,
    jobs,
    llm,
    mcp,
    memories,
    mirror,
    operators,
    people,
    serve,
    sources,
    tenant_config,
    up,
    upstreams,
)
from app.cli.client import error_text, exit_with_error

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Memory for AI agents, on PostgreSQL.")
app.command("up")(up.start_installation)
app.command("down")(up.stop_installation)
app.command("status")(up.print_status)
app.command("serve")(serve.serve)
app.command("migrate")(operators.migrate_schema)
operators.tenant_app.add_typer(upstreams.upstream_app, name="upstream")
operators.tenant_app.add_typer(tenant_config.config_app, name="config")
app.add_typer(operators.tenant_app, name="tenant")
app.add_typer(operators.key_app, name="key")
app.add_typer(operators.secret_app, name="secret")
app.add_typer(embeddings.embeddings_app, name="embeddings")
app.add_typer(jobs.jobs_app, name="jobs")
app.add_typer(llm.llm_app, name="llm")
app.command("remember")(memories.remember_memory)
app.command("query")(memories.query_memory)
app.command("search")(memories.search_memories)
app.command("history")(memories.show_history)
app.add_typer(facts.facts_app, name="facts")
app.command("mcp")(mcp.serve_mcp)
app.command("import")(memories.import_file)
app.command("mirror")(mirror.mirror_memories)
app.add_typer(sources.source_app, name="source")
app.command("export")(people.export_user)
app.command("erase")(people.erase_user)
app.command("run")(people.run_job)
app.command("doctor")(operators.run_doctor)


def _add_installed_groups() -> None:
    """Add the command groups of other installed packages, such as `mnema bench` of a checkout."""
    for group in entry_points(group="mnema.commands"):
        try:
            app.add_typer(group.load(), name=group.name)
        except ModuleNotFoundError as missing:
            if missing.name != group.module.split(".")[0]:
                raise


_add_installed_groups()


def main() -> None:
    """Run the command line. Report an unexpected error as one line; MNEMA_DEBUG=1 shows its traceback."""
    try:
        app()
    except Exception as error:
        if os.environ.get("MNEMA_DEBUG"):
            raise
        try:
            exit_with_error(error_text(error))
        except typer.Exit as leaving:
            sys.exit(leaving.exit_code)


if __name__ == "__main__":
    main()
