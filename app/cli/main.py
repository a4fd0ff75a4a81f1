"""The command `mnema`."""

import os
import sys

import typer

from app.cli import bench, embeddings, jobs, llm, mcp, memories, operators, people
from app.cli.client import explain, fail
from app.cli.embedded import lifecycle

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Memory for AI agents, on PostgreSQL.")
app.command("up")(lifecycle.up)
app.command("down")(lifecycle.down)
app.command("status")(lifecycle.status)
app.command("migrate")(operators.migrate)
app.add_typer(operators.tenant_app, name="tenant")
app.add_typer(operators.key_app, name="key")
app.add_typer(operators.secret_app, name="secret")
app.add_typer(embeddings.embeddings_app, name="embeddings")
app.add_typer(bench.bench_app, name="bench")
app.add_typer(jobs.jobs_app, name="jobs")
app.add_typer(llm.llm_app, name="llm")
app.command("remember")(memories.remember)
app.command("query")(memories.query)
app.command("history")(memories.history)
app.command("mcp")(mcp.serve)
app.command("import")(memories.import_)
app.command("export")(people.export)
app.command("erase")(people.erase)
app.command("run")(people.run_job)
app.command("doctor")(operators.doctor)


def main() -> None:
    """Run the command line. An error nobody foresaw is one line too; MNEMA_DEBUG=1 shows where it comes from."""
    try:
        app()
    except Exception as error:
        if os.environ.get("MNEMA_DEBUG"):
            raise
        try:
            fail(explain(error))
        except typer.Exit as leaving:
            sys.exit(leaving.exit_code)


if __name__ == "__main__":
    main()
