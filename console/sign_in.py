"""Sign-in and sign-out: plain forms without scripts."""

import html
import logging
import secrets
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from string import Template
from urllib.parse import parse_qs

from mnema_client import LimitReached, MnemaError, Unauthenticated
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from console.attempts import SignInAttempts
from console.errors import explain_error
from console.gate import is_local_page, read_cookie
from console.headers import FORM
from console.key_check import KeyCheck, TooManyStrangers
from console.keys import OPERATOR_HOME
from console.registry import ENDINGS, SessionRegistry
from console.session import COOKIE, COOKIE_PATH, FORM_COOKIE, LONGEST_KEY, SESSION, FormTokens, Session, SessionCookies
from console.settings import ConsoleSettings

log = logging.getLogger("console")
PAGE = Template((Path(__file__).parent / "sign-in.html").read_text(encoding="utf-8"))
HOME = f"{COOKIE_PATH}/"
FORM_NAME_BYTES = 18


class SignIn:
    """The routes of signing in and out."""

    def __init__(
        self,
        settings: ConsoleSettings,
        cookies: SessionCookies,
        tokens: FormTokens,
        registry: SessionRegistry,
        key_check: KeyCheck,
        clock: Callable[[], datetime],
    ) -> None:
        self._settings = settings
        self._cookies = cookies
        self._tokens = tokens
        self._registry = registry
        self._key_check = key_check
        self._clock = clock
        self._attempts = SignInAttempts(settings.attempts, settings.attempts_minutes)

    def routes(self) -> list[Route]:
        """Return the routes, to be served before NiceGUI's."""
        return [
            Route(f"{COOKIE_PATH}/sign-in", self.show_form, methods=["GET"]),
            Route(f"{COOKIE_PATH}/sign-in", self.sign_in, methods=["POST"]),
            Route(f"{COOKIE_PATH}/sign-out", self.sign_out, methods=["POST"]),
        ]

    async def show_form(self, request: Request) -> Response:
        """Return the form. A person who is signed in goes to the first page."""
        if request.scope[SESSION] is not None:
            return RedirectResponse(HOME, 303)
        message = ENDINGS.get(request.query_params.get("reason", ""), "")
        return self._render(request, request.query_params.get("next", ""), message)

    async def sign_in(self, request: Request) -> Response:
        """Check the key with the API; set the session's cookie."""
        form = await _read_form(request)
        following, api_key = form.get("next", ""), form.get("key", "").strip()
        if not self._tokens.is_valid(form.get("token", ""), read_cookie(request.headers, FORM_COOKIE)):
            return self._render(request, following, "The form was too old. Try again.", 403)
        address = request.client.host if request.client else ""
        now = self._clock()
        if wait_s := self._attempts.begin_attempt(address, now):
            message = f"Too many wrong keys from your address. Try again in {wait_s / 60:.0f} minutes."
            return self._render(request, following, message, 429, retry_after=wait_s)
        found = await self._check_key(api_key, address)
        if not isinstance(found, bool):
            return self._render(request, following, *found)
        home = f"{COOKIE_PATH}{OPERATOR_HOME}" if found else HOME
        response = RedirectResponse(following if is_local_page(following) and not found else home, 303)
        session = self._cookies.create_session(api_key, now, is_operator=found)
        self._set_cookie(request, response, COOKIE, self._cookies.seal_session(session), session)
        response.delete_cookie(FORM_COOKIE, path=COOKIE_PATH)
        return response

    async def sign_out(self, request: Request) -> Response:
        """End the session on all its pages and delete its cookie."""
        session: Session | None = request.scope[SESSION]
        form = await _read_form(request)
        if session is None or not self._tokens.is_valid(form.get("token", ""), session.id):
            return RedirectResponse(HOME, 303)
        self._registry.end_session(session, "out", self._clock())
        response = RedirectResponse(f"{COOKIE_PATH}/sign-in?reason=out", 303)
        response.delete_cookie(COOKIE, path=COOKIE_PATH)
        return response

    async def _check_key(self, api_key: str, address: str) -> tuple[str, int] | bool:
        """Return the message and status of a refusal; for a valid key, True if it is the operator's."""
        if not api_key or len(api_key) > LONGEST_KEY or not all("!" <= char <= "~" for char in api_key):
            return "This is not an API key. A key has no spaces.", 422
        try:
            found = await self._key_check.check_key(api_key)
        except Unauthenticated:
            log.warning("sign-in refused: wrong key from %s", address)
            return "The key is unknown, revoked or expired.", 401
        except (LimitReached, TooManyStrangers):
            log.warning("sign-in refused: too many keys, at last from %s", address)
            return "Too many keys were tried. Try again in a minute.", 429
        except MnemaError as error:
            self._attempts.forgive_attempt(address)
            log.error("sign-in: the API failed: %s", error.code)
            return " ".join(explain_error(error)), 503
        self._attempts.forgive_attempt(address)
        return found.is_operator

    def _render(
        self, request: Request, following: str, message: str, status: int = 200, *, retry_after: float = 0
    ) -> Response:
        name = read_cookie(request.headers, FORM_COOKIE) or secrets.token_urlsafe(FORM_NAME_BYTES)
        token = self._tokens.create_token(name)
        shown = f'<p class="message" role="alert">{html.escape(message)}</p>' if message else ""
        safe_next = html.escape(following if is_local_page(following) else "")
        page = PAGE.substitute(token=token, message=shown, next=safe_next)
        headers = {"Content-Security-Policy": FORM, "Cache-Control": "no-store"}
        if retry_after:
            headers["Retry-After"] = str(int(retry_after) + 1)
        response = HTMLResponse(page, status, headers)
        self._set_cookie(request, response, FORM_COOKIE, name, None)
        if COOKIE in request.cookies and request.scope[SESSION] is None:  # over, ended or forged
            response.delete_cookie(COOKIE, path=COOKIE_PATH)
        return response

    def _set_cookie(self, request: Request, response: Response, name: str, value: str, session: Session | None) -> None:
        secure = self._settings.tls or request.url.scheme == "https"
        ends = session.expires_at if session else None
        response.set_cookie(
            name, value, expires=ends, path=COOKIE_PATH, secure=secure, httponly=True, samesite="strict"
        )


async def _read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form; {} if the body is not one. The gate bounds its size."""
    body = await request.body()
    try:
        fields = parse_qs(body.decode("ascii"), max_num_fields=10)
    except ValueError:
        return {}
    return {name: values[0] for name, values in fields.items()}
