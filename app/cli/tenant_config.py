"""mnema tenant config: a tenant's own rules."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from mnema_cli.output import error_text, exit_with_error, out, plain_table, print_table, write_time
from rich.markup import escape

from app.bootstrap.policies import open_rules
from app.cli.operators import Owner, run_for_tenant
from app.domain.tenancy.rules import MAX_DOCUMENT_BYTES, RulesChange, check_note, parse_moves
from app.usecases.tenancy.rules import ManageRules, RulesDraft, RulesTarget

config_app = typer.Typer(no_args_is_help=True, help="A tenant's own agents, categories and settings.")
TenantArgument = Annotated[str, typer.Argument(help="name or id")]
MoveOption = Annotated[
    list[str] | None, typer.Option("--move", help="as OLD:NEW; memories of a removed category move to another one")
]
IfVersionOption = Annotated[int | None, typer.Option("--if-version", help="replace only this version")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="change nothing; show what would change")]


@config_app.command("get")
def get_config(
    tenant: TenantArgument,
    version: Annotated[int | None, typer.Option("--version", help="by default the version in force")] = None,
) -> None:
    """Print a tenant's document as YAML."""

    async def read_document(rules: ManageRules, owner: Owner) -> str:
        if version is None:
            return await rules.write_document((await rules.get_rules(owner.principal)).version)
        return await rules.write_document(await rules.get_version(owner.principal, version))

    document = run_for_tenant(open_rules, tenant, read_document)
    out.print(document, markup=False, highlight=False, end="", soft_wrap=True)


@config_app.command("put")
def put_config(
    tenant: TenantArgument,
    file: Annotated[Path, typer.Argument(help="a YAML file; - reads the standard input")],
    if_version: IfVersionOption = None,
    move: MoveOption = None,
    dry_run: DryRunOption = False,
    note: Annotated[str | None, typer.Option("--note", help="why, for the history")] = None,
) -> None:
    """Put a document in force. It replaces the one before; servers and workers use it within 5 seconds."""
    text = _read_text(file)

    async def store_document(rules: ManageRules, owner: Owner) -> RulesChange:
        document = await rules.read_document(text, is_yaml=True)
        draft = RulesDraft(document, if_version, parse_moves(move or []), check_note(note))
        return await rules.put_rules(owner.principal, draft, dry_run=dry_run)

    _print_change(run_for_tenant(open_rules, tenant, store_document), dry_run)


@config_app.command("history")
def list_history(
    tenant: TenantArgument, limit: Annotated[int, typer.Option("--limit", min=1, max=200, help="newest versions")] = 20
) -> None:
    """List the versions of a tenant's document, newest first."""
    found = run_for_tenant(open_rules, tenant, lambda rules, owner: rules.list_versions(owner.principal, None, limit))
    rows = plain_table("version", "made", "by", "note")
    for one in found.items:
        rows.add_row(str(one.version), write_time(one.created_at), escape(one.actor or ""), escape(one.note or ""))
    print_table(rows, whole=True)


@config_app.command("diff")
def compare_versions(
    tenant: TenantArgument,
    first: Annotated[int, typer.Argument(help="0: the defaults alone")],
    second: Annotated[int, typer.Argument()],
) -> None:
    """Show the difference of two versions."""
    _print_lines(
        run_for_tenant(open_rules, tenant, lambda rules, owner: rules.compare_versions(owner.principal, first, second))
    )


@config_app.command("rollback")
def roll_back(
    tenant: TenantArgument,
    version: Annotated[int, typer.Argument(help="0: the defaults alone")],
    if_version: IfVersionOption = None,
    move: MoveOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Put an earlier version in force again, as a new version."""

    async def store_version(rules: ManageRules, owner: Owner) -> RulesChange:
        target = RulesTarget(version, if_version, parse_moves(move or []))
        return await rules.roll_back(owner.principal, target, dry_run=dry_run)

    _print_change(run_for_tenant(open_rules, tenant, store_version), dry_run)


def _read_text(file: Path) -> bytes:
    try:
        if str(file) == "-":
            return sys.stdin.buffer.read(MAX_DOCUMENT_BYTES + 1)
        with file.open("rb") as stream:
            return stream.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        exit_with_error(error_text(error))


def _print_change(change: RulesChange, dry_run: bool) -> None:
    _print_lines(change.diff)
    for category, count in change.moved.items():
        out.print(
            f"{count} memories and facts of {escape(category)} {'would move' if dry_run else 'moved'}", highlight=False
        )
    for warning in change.warnings:
        out.print(f"warning: {escape(warning)}", highlight=False)
    reached = "would be in force" if dry_run else "is in force, within 5 seconds in all servers and workers"
    out.print(f"version {change.version} {reached}", highlight=False)


def _print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        out.print(escape(line), highlight=False, soft_wrap=True)
