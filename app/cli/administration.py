"""mnema migrate, secret and doctor: commands about a whole installation."""

import asyncio
from typing import Annotated

import typer
from mnema_cli.output import error_text, exit_with_error, out
from rich.markup import escape

from app.bootstrap.administration import (
    ask_chat_model,
    change_secret,
    create_roles,
    diagnose_installation,
    find_database,
    migrate_database,
    roles_script,
)
from app.bootstrap.cluster_migration import migrate_clusters
from app.cli.operators import admin_url, resolve_settings, run_use_case
from app.config.settings import AdminSettings, Settings
from app.domain.errors import ConfigError, MnemaError
from app.embedded.home import DATABASE, Home
from app.usecases.operations.readiness import READ_ONLY, Readiness

secret_app = typer.Typer(no_args_is_help=True, help="The installation's secret, MNEMA_SECRET_KEY.")
REMEDIES = {
    "database": "check MNEMA_DATABASE_URL and that PostgreSQL runs there, or start the embedded one with `mnema up`"
}


def migrate_schema(
    roles_only: Annotated[
        bool, typer.Option("--roles-only", help="create roles, database and extension but no schema, before a restore")
    ] = False,
    print_sql: Annotated[
        bool, typer.Option("--print-sql", help="only print the SQL of that, for psql and your database administrator")
    ] = False,
) -> None:
    """Migrate the schema to the newest version, as mnema_admin (MNEMA_ADMIN_DATABASE_URL).

    With MNEMA_SUPERUSER_DATABASE_URL, MNEMA_ADMIN_PASSWORD and MNEMA_APP_PASSWORD it first creates roles, database and
    extension. CREATEROLE and CREATEDB are enough for that. With MNEMA_BACKUP_PASSWORD it also creates mnema_backup,
    which can read everything and write nothing.

    With MNEMA_CLUSTERS it does this for each cluster of the file and joins them: see docs/scaling.md.
    """
    settings = AdminSettings()
    try:
        named = find_database(settings.admin_database_url.get_secret_value())
    except ConfigError as error:
        exit_with_error(error_text(error))
    database = settings.database or named or DATABASE
    if print_sql:
        typer.echo(roles_script(database), nl=False)
        return
    if superuser := settings.superuser_database_url.get_secret_value():
        passwords = settings.role_passwords()
        if not all(passwords.values()):
            exit_with_error("set MNEMA_ADMIN_PASSWORD and MNEMA_APP_PASSWORD")
        run_use_case(create_roles(superuser, database, passwords))
    if roles_only:
        if not superuser:
            exit_with_error("set MNEMA_SUPERUSER_DATABASE_URL")
        out.print("roles, database and extension exist")
        return
    if (several := Settings()).clusters is not None:
        for name, model in run_use_case(migrate_clusters(several)).items():
            out.print(f"{name}: the schema is current; the vectors are from {model}", highlight=False)
        return
    model = run_use_case(migrate_database(admin_url(), Settings()))
    out.print(f"the schema is current; the vectors are from {model}")


@secret_app.callback()
def _secret_group() -> None:
    """Keep `accept` a subcommand: Typer would drop the name of an only command."""


@secret_app.command("accept")
def secret_accept() -> None:
    """Make this MNEMA_SECRET_KEY the secret of the database, as mnema_admin (MNEMA_ADMIN_DATABASE_URL).

    The keys of tenants' chat endpoints are decrypted with MNEMA_FORMER_SECRET_KEY and encrypted with the new secret.
    /ready then fails on servers with another secret. Texts that were erased under the former secret are no longer
    recognised.
    """
    count = run_use_case(change_secret(resolve_settings(), admin_url()))
    out.print(f"keys of chat endpoints encrypted again: {count}", highlight=False)
    out.print("accepted; texts erased under the former secret are no longer recognised")


def run_doctor(
    ask_model: Annotated[
        bool, typer.Option("--ask-model", help="also ask the chat model a question, which costs some tokens")
    ] = False,
) -> None:
    """Check this installation and say how to repair it.

    With --ask-model, show how the chat model's endpoint is asked for JSON, and which parameters it takes.
    Exit code 1 if the server could not answer requests, 0 if it could, even without a broker.
    """
    settings = Settings()
    home = Home()
    if not settings.database_url.get_secret_value() and home.is_installed and home.postgres.is_running():
        settings = home.settings_with_redis(home.postgres.start_server())
    try:
        checks = asyncio.run(diagnose_installation(settings))
    except MnemaError as error:
        exit_with_error(error_text(error))
    except Exception as error:  # an error of the driver: the database exists, but `mnema migrate` has not prepared it
        exit_with_error(f"the database is not prepared ({error_text(error)}): run `mnema migrate`")
    failed = Readiness.failed_checks(checks)
    for name, verdict in checks.items():
        mark = "[green]ok[/]  " if name not in failed else "[red]bad[/] "
        if name in failed & Readiness.OPTIONAL:
            mark = "[yellow]warn[/]"
        out.print(f"{mark} {name}{'' if verdict == 'ok' else ': ' + escape(verdict)}", highlight=False)
    for name in failed & REMEDIES.keys():
        if checks[name] != READ_ONLY:  # that verdict already names the remedy
            out.print(f"\nto repair {name}: {REMEDIES[name]}", highlight=False)
    if ask_model:
        out.print(f"\nchat model: {escape(run_use_case(ask_chat_model(settings)))}", highlight=False)
    if failed - Readiness.OPTIONAL:
        raise typer.Exit(1)
