"""mnema tenant upstream: the chat endpoints that tenants' conversations go to."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from mnema_cli.output import error_text, exit_with_error, out, write_time
from rich.markup import escape

from app.bootstrap.upstreams import open_upstreams
from app.cli.operators import resolve_settings, run_for_tenant
from app.domain.chat.upstream import OPENAI, UpstreamDialect
from app.usecases.chat.upstreams import MAX_AUTHORIZATION

KEY_VARIABLE = "MNEMA_UPSTREAM_KEY"
upstream_app = typer.Typer(no_args_is_help=True, help="The chat endpoints that a tenant's conversations go to.")
TenantArgument = Annotated[str, typer.Argument(help="name or id")]
DialectOption = Annotated[UpstreamDialect, typer.Option("--dialect", help="the API that the endpoint speaks")]


@upstream_app.command("set")
def set_upstream(
    tenant: TenantArgument,
    url: Annotated[str, typer.Option("--url", help="the URL before /chat/completions or /messages")],
    key_file: Annotated[Path | None, typer.Option("--key-file", help="a file with the key alone")] = None,
    no_key: Annotated[bool, typer.Option("--no-key", help="the endpoint needs no key")] = False,
    dialect: DialectOption = OPENAI,
) -> None:
    """Set the chat endpoint of a tenant, in place of the installation's.

    The key comes from --key-file, else from MNEMA_UPSTREAM_KEY, else from a prompt. It is stored encrypted.
    """
    resolve_settings()  # without a database nobody is asked for a key
    key = "" if no_key else _read_key(key_file)
    run_for_tenant(
        partial(open_upstreams, check_secret=True),
        tenant,
        lambda upstreams, owner: upstreams.set_upstream(owner.id, url, key, dialect),
    )
    out.print(f"set, {'with a key' if key else 'without a key'}", highlight=False)


@upstream_app.command("show")
def show_upstream(tenant: TenantArgument, dialect: DialectOption = OPENAI) -> None:
    """Show a tenant's own chat endpoint, with the last characters of its key at most."""
    shown = run_for_tenant(open_upstreams, tenant, lambda upstreams, owner: upstreams.show_upstream(owner.id, dialect))
    if shown is None:
        out.print("none of its own; the installation's is used if there is one")
        return
    out.print(f"url      {escape(shown.base_url)}", highlight=False)
    out.print(f"key      {escape(shown.key)}", highlight=False)
    out.print(f"updated  {write_time(shown.updated_at)}", highlight=False)


@upstream_app.command("clear")
def clear_upstream(tenant: TenantArgument, dialect: DialectOption = OPENAI) -> None:
    """Delete a tenant's own chat endpoint with its key. The installation's is used from then on."""
    cleared = run_for_tenant(
        open_upstreams, tenant, lambda upstreams, owner: upstreams.clear_upstream(owner.id, dialect)
    )
    out.print("cleared" if cleared else "nothing to clear")


@upstream_app.command("test")
def try_upstream(tenant: TenantArgument, dialect: DialectOption = OPENAI) -> None:
    """Call GET /models of the endpoint that a tenant uses. Exit code 1 unless it answers 200."""
    tested = run_for_tenant(open_upstreams, tenant, lambda upstreams, owner: upstreams.test_upstream(owner.id, dialect))
    models = "no list of models" if tested.models is None else f"{tested.models} models"
    out.print(f"{escape(tested.base_url)}  {tested.status}  {models}  {tested.milliseconds:.0f} ms", highlight=False)
    if tested.status != 200:
        raise typer.Exit(1)


def _read_key(file: Path | None) -> str:
    """Return the key without line ends around it. It is never an argument, because process lists show those."""
    if file is None:
        if given := os.environ.get(KEY_VARIABLE, "").strip():
            return given
        prompted: str = typer.prompt("key of the endpoint", hide_input=True)
        return prompted.strip()
    try:
        with file.open(encoding="utf-8") as stream:
            return stream.read(MAX_AUTHORIZATION + 100).strip()
    except OSError as error:
        exit_with_error(error_text(error))
    except UnicodeDecodeError:
        exit_with_error(f"{file}: must be a text file with the key alone")
