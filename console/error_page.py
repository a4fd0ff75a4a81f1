"""The page that is shown in place of one that is missing or broken: plain, without scripts."""

from pathlib import Path
from string import Template

PAGE = Template((Path(__file__).parent / "error.html").read_text(encoding="utf-8"))
MISSING = "This page does not exist", "The address is wrong, or it is one of an older version."
BROKEN = "Something went wrong", "The page could not be built. The console’s log says why. Try again in a moment."


def render_error_page(status: int) -> bytes:
    """Return the page for this HTTP status. It quotes nothing of the request."""
    title, reason = MISSING if status < 500 else BROKEN
    return PAGE.substitute(title=title, reason=reason).encode()
