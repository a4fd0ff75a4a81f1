"""The security headers of every response, and the nonce of a page's own scripts.

NiceGUI needs three things that a stricter policy would refuse:
- `'unsafe-eval'`: Vue compiles templates in the browser, and NiceGUI sends its own event handlers as code.
- inline scripts: a page has four. They get a nonce, so that no other inline script or event attribute runs.
- inline styles: Quasar and NiceGUI add style elements and attributes at run time.
"""

import re
import secrets

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Send

from console.error_page import render_error_page

INLINE_SCRIPT = re.compile(rb'<script(?: type="(?:module|importmap)")?>')
ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
"""`same-origin` and not `no-referrer`: with the latter, browsers send forms with `Origin: null`."""
OVER_TLS = "max-age=31536000"
NOTHING = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"
FORM = f"{NOTHING}; style-src 'self'; img-src 'self'; form-action 'self'"
"""The policy of the pages to sign in: no script at all."""


def page_policy(nonce: str) -> str:
    """Return the content security policy of a page of NiceGUI."""
    return (
        f"default-src 'none'; script-src 'self' 'nonce-{nonce}' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'; object-src 'none'"
    )


class HeaderWriter:
    """The sending end of one response: adds the headers, and the nonce to the scripts of a page.

    It replaces NiceGUI's error pages: they open a websocket that belongs to no session, and would load again for ever.
    """

    def __init__(self, send: Send, *, tls: bool) -> None:
        self._send = send
        self._tls = tls
        self._nonce = ""
        self._start: Message | None = None
        self._body = b""
        self._is_replaced = False

    async def send(self, message: Message) -> None:
        """Send one message of the response. The body of a page is held until it is whole."""
        if self._is_replaced:
            return
        if message["type"] == "http.response.start":
            if _is_error_page(message):
                self._is_replaced = True
                await self._send_error_page(message["status"])
                return
            headers = MutableHeaders(scope=message)
            self._add_headers(headers)
            if headers.get("X-NiceGUI-Content") == "page":
                self._start = message
                return
        elif message["type"] == "http.response.body" and self._start is not None:
            self._body += message.get("body", b"")
            if message.get("more_body"):
                return
            await self._send_page(self._start)
            return
        await self._send(message)

    def _add_headers(self, headers: MutableHeaders) -> None:
        for name, value in ALWAYS.items():
            headers[name] = value
        if self._tls:
            headers["Strict-Transport-Security"] = OVER_TLS
        if headers.get("X-NiceGUI-Content") == "page":
            self._nonce = secrets.token_urlsafe(16)
            headers["Content-Security-Policy"] = page_policy(self._nonce)
        elif "Content-Security-Policy" not in headers:
            headers["Content-Security-Policy"] = NOTHING

    async def _send_page(self, start: Message) -> None:
        """Send the page. Only its own scripts get the nonce: NiceGUI escapes `<` in all that is not its own."""
        opening = f' nonce="{self._nonce}">'.encode()
        body = INLINE_SCRIPT.sub(lambda found: found[0][:-1] + opening, self._body)
        MutableHeaders(scope=start)["Content-Length"] = str(len(body))
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})

    async def _send_error_page(self, status: int) -> None:
        body = render_error_page(status)
        start: Message = {"type": "http.response.start", "status": status, "headers": []}
        headers = MutableHeaders(scope=start)
        headers["Content-Type"] = "text/html; charset=utf-8"
        headers["Content-Length"] = str(len(body))
        headers["Content-Security-Policy"] = FORM
        headers["Cache-Control"] = "no-store"
        self._add_headers(headers)
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})


def _is_error_page(start: Message) -> bool:
    return start["status"] >= 400 and MutableHeaders(scope=start).get("X-NiceGUI-Content") == "page"
