"""mnema import: chat turns, and the memories and conversations of other products."""

from collections.abc import Mapping
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import httpx
import typer

from mnema_cli.client import describe_failure, describe_response, open_client
from mnema_cli.imports.langgraph_store import StoreChoices
from mnema_cli.imports.own_export import import_export
from mnema_cli.imports.readers import Origin, Product, open_reader
from mnema_cli.imports.records import Choices, SourceFailed, normalise_name
from mnema_cli.imports.run import Plan, import_records
from mnema_cli.imports.turn_import import check_turns, import_turns
from mnema_cli.installation import installation
from mnema_cli.output import USAGE, exit_with_error


class Target(StrEnum):
    """The kind of record that the items of a LangGraph store become."""

    memories = "memories"
    items = "items"


OPTIONS_OF: Mapping[str, tuple[Product, ...]] = {
    "thread": (Product.letta, Product.graphiti, Product.csv),
    "group": (Product.graphiti,),
    "last": (Product.graphiti,),
    "workspace": (Product.honcho,),
    "assistant": (Product.honcho,),
    "namespace": (Product.langgraph,),
    "text_field": (Product.langgraph,),
    "target": (Product.langgraph,),
    "column": (Product.csv,),
    "renew_ids": (Product.mnema,),
}
"""The options that only these products take."""
PROCEDURAL = "procedural"
"""The category of procedures. Nothing is imported into it."""
FOR_ALL = ("source", "product", "dry_run", "workers", "restart", "learn")
"""The options that chat turns take."""
FOR_MNEMA = ("source", "product", "dry_run", "user", "renew_ids")
"""The options that an export of Mnema takes."""
Many = list[str] | None
SOURCE = "a file; a folder for markdown; a URL for zep, graphiti, honcho; module:name or postgres for langgraph"


def import_file(
    context: typer.Context,
    source: Annotated[str | None, typer.Argument(help=SOURCE, show_default=False)] = None,
    product: Annotated[Product | None, typer.Option("--from", help="what the source is; absent: chat turns")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="count what would be imported, write nothing")] = False,
    category: Annotated[str | None, typer.Option(help="for memories without a known category")] = None,
    map_category: Annotated[Many, typer.Option(metavar="THEIRS=OURS", help="rename a category; repeatable")] = None,
    user: Annotated[str | None, typer.Option(help="for records without a user")] = None,
    thread: Annotated[str | None, typer.Option(help="letta, graphiti, csv: for turns without a thread")] = None,
    trim: Annotated[bool, typer.Option(help="shorten texts that are too long instead of refusing them")] = False,
    group: Annotated[Many, typer.Option(help="graphiti: a group to read; repeatable")] = None,
    last: Annotated[int, typer.Option(min=1, help="graphiti: how many of a group's newest episodes")] = 10_000,
    workspace: Annotated[str, typer.Option(help="honcho: the workspace")] = "default",
    assistant: Annotated[Many, typer.Option(help="honcho: a peer that is an assistant; repeatable")] = None,
    namespace: Annotated[str | None, typer.Option(help="langgraph: such as memories/{user} or {user}/**")] = None,
    text_field: Annotated[str | None, typer.Option(help="langgraph: where the text is: content.text")] = None,
    target: Annotated[Target, typer.Option("--as", help="langgraph: what items become")] = Target.memories,
    column: Annotated[Many, typer.Option(metavar="THEIRS=OURS", help="csv: name a column; repeatable")] = None,
    renew_ids: Annotated[bool, typer.Option("--renew-ids", help="mnema: give the records new ids")] = False,
    workers: Annotated[int, typer.Option(min=1, max=32, help="requests in flight")] = 8,
    restart: Annotated[bool, typer.Option(help="send again what an earlier import sent")] = False,
    learn: Annotated[bool, typer.Option(help="draw facts from imported turns, by rules alone")] = False,
) -> None:
    """Import chat turns, the export of a user, or memories of another product.

    Chat turns are JSON lines {user_id, thread_id, role, content, actor_id?, created_at?, seq?, metadata?}. The keys of
    zep, graphiti and honcho are in ZEP_API_KEY, GRAPHITI_API_KEY and HONCHO_API_KEY. See docs/import.md.

    You can stop an import at any time: the next run continues where it stopped, and nothing is stored twice.
    """
    _refuse_strange(context, product)
    if product is None:
        check_turns(_find_file(source)) if dry_run else import_turns(
            _find_file(source), workers, restart=restart, learn=learn
        )
        return
    if product is Product.mnema:
        with open_client() as client:
            import_export(client, _find_file(source), user, renew_ids=renew_ids, dry_run=dry_run)
        return
    store = StoreChoices(namespace, text_field, target is Target.items)
    columns = tuple(_read_pairs(column, "--column").items())
    origin = Origin(product, source, tuple(group or ()), last, workspace, tuple(assistant or ()), store, columns)
    plan = Plan(origin.name, origin.identity, workers, trim, restart, dry_run, learn)
    with ExitStack() as stack:
        client = stack.enter_context(open_client())
        choices = _make_choices(client, product, _read_pairs(map_category, "--map-category"), (category, user, thread))
        _import_origin(client, origin, choices, plan, stack)


def _import_origin(client: httpx.Client, origin: Origin, choices: Choices, plan: Plan, stack: ExitStack) -> None:
    try:
        found = open_reader(origin, choices, stack)
    except SourceFailed as error:
        exit_with_error(str(error))
    import_records(client, found, choices, plan)


def _refuse_strange(context: typer.Context, product: Product | None) -> None:
    """Exit with an error if an option was given that this product does not take."""
    sources = ((name, context.get_parameter_source(name)) for name in context.params)
    for name in [name for name, found in sources if found is not None and found.name == "COMMANDLINE"]:
        option = "--as" if name == "target" else f"--{name.replace('_', '-')}"
        if product is None and name not in FOR_ALL:
            exit_with_error(f"{option} needs --from", USAGE)
        if product is Product.mnema and name not in FOR_MNEMA:
            exit_with_error(f"{option} belongs to other products than mnema", USAGE)
        if product is not None and product not in OPTIONS_OF.get(name, (product,)):
            exit_with_error(f"{option} belongs to --from {', '.join(OPTIONS_OF[name])}, not to {product}", USAGE)


def _find_file(source: str | None) -> Path:
    file = Path(source or "")
    if not source:
        exit_with_error("name the file: mnema import turns.jsonl, or a product with --from", USAGE)
    if not file.is_file():
        exit_with_error(f"{source} does not exist or is no file", USAGE)
    return file


def _read_pairs(pairs: Many, option: str) -> dict[str, str]:
    found = {}
    for pair in pairs or ():
        theirs, equals, ours = pair.partition("=")
        if not (theirs.strip() and equals and ours.strip()):
            exit_with_error(f"{option} {pair!r} is not THEIRS=OURS", USAGE)
        found[theirs.strip()] = ours.strip()
    return found


def _make_choices(
    client: httpx.Client, product: Product, renamed: Mapping[str, str], given: tuple[str | None, str | None, str | None]
) -> Choices:
    """Return the choices with the tenant's categories. Exit with an error if a given category is not among them."""
    category, user, thread = given
    server = installation()
    known = _list_categories(client) or set(server.categories)
    for name in {*renamed.values(), *([category] if category else [])} - known:
        exit_with_error(f"unknown category {name!r}; the tenant has: {', '.join(sorted(known))}", USAGE)
    return Choices(
        product=product.value,
        known=known - {PROCEDURAL},
        default_category=category or server.turn_category,
        turn_category=server.turn_category,
        renamed={normalise_name(theirs): ours for theirs, ours in renamed.items()},
        user=user,
        thread=thread,
        limits=server.text_limits,
    )


def _list_categories(client: httpx.Client) -> set[str]:
    """Return the categories that the key may see, none if it lacks the scope to list them."""
    found: set[str] = set()
    cursor: str | None = None
    while True:
        params = {"limit": 200} | ({"cursor": cursor} if cursor else {})
        try:
            response = client.get("/categories", params=params)
            if response.status_code == 403:
                return set()
            if response.status_code != 200:
                exit_with_error(describe_response(response))
            page = response.json()
            found |= {item["name"] for item in page["items"]}
        except httpx.HTTPError as error:
            exit_with_error(describe_failure(client, error))
        except (ValueError, KeyError, TypeError):
            exit_with_error(f"{client.base_url} is not a Mnema server")
        if not (cursor := page.get("next_cursor")):
            return found
