"""The end of `mnema up`: the addresses, and commands to try next."""

import os
import shlex
import sys
from pathlib import Path

from mnema_cli.client import out
from rich.markup import escape

from app.embedded.console_keeper import ConsoleKeeper
from app.embedded.home import Home

USER = "maya"
"""The user of the commands if no sample is loaded."""


def print_addresses(home: Home, url: str, key: str, console: ConsoleKeeper | None) -> None:
    """Print the server's address and key, the console's address if it answers, and how to stop."""
    out.print(f"\n[bold]Mnema serves[/] {url}", highlight=False)
    out.print(f"  key   {key}", highlight=False)
    if console is not None and console.answers:
        out.print(f"  web   {console.address}", highlight=False)
    out.print(f"  docs  {url}/docs", highlight=False)
    out.print(f"  env   {home.env_file}", highlight=False)
    out.print("  stop  Ctrl-C", highlight=False)
    if console is not None and not console.answers:
        out.print("The console is starting. Its address follows as soon as it answers.", highlight=False)


def print_next_steps(home: Home, user: str, *, has_console: bool) -> None:
    """Print commands that work as they stand in a second terminal in this folder. `user`: whose memories they use."""
    mnema = _short_path(Path(sys.executable).with_name("mnema"))
    who = shlex.quote(user)
    steps = [
        (f". {_short_path(home.env_file)}", "the address and the key, for the commands below, curl and your programs"),
        (f'{mnema} remember "{user} must book the night train to Porto by Monday." --user {who} --category tasks', ""),
        (f'{mnema} query "which train to book?" --agent planner --user {who}', "what an agent is told"),
        (f"{mnema} list --user {who}", "also: get, edit, forget, restore, history, why"),
        (f"{mnema} doctor", "checks the installation"),
    ]
    if "MNEMA_HOME" in os.environ:
        steps.insert(0, (f"export MNEMA_HOME={shlex.quote(str(home.path))}", ""))
    out.print("\n[bold]Try next[/], in a second terminal in this folder:", highlight=False)
    for command, about in steps:
        out.print(f"  {escape(command)}" + (f"   [dim]# {about}[/]" if about else ""), highlight=False)
    if has_console:
        out.print("Open the web address above in a browser and sign in with the key.", highlight=False)
    out.print("docs/agents.md says how to connect an agent of your own; README.md lists all pages.", highlight=False)


def _short_path(path: Path) -> str:
    """Return a path for a shell, relative if it is below the working directory."""
    folder = Path.cwd()
    return shlex.quote(str(path.relative_to(folder) if path.is_relative_to(folder) else path))
