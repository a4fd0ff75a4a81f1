"""Swagger UI at /docs, from files of this server. Its content policy forbids every other server."""

import base64
import hashlib
import re
from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

PATH = "/docs"
FILES = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}
PATHS = (PATH, *(f"{PATH}/{name}" for name in FILES))
_BUNDLED = Path(str(files("fastapi_offline"))) / "static"
_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def install_docs(app: FastAPI) -> None:
    """Add the routes of the page and of its files to `app`."""

    async def serve_page(request: Request) -> Response:
        root = request.scope.get("root_path", "").rstrip("/")
        html = get_swagger_ui_html(
            openapi_url=f"{root}{app.openapi_url}",
            title=app.title,
            swagger_js_url=f"{root}{PATH}/swagger-ui-bundle.js",
            swagger_css_url=f"{root}{PATH}/swagger-ui.css",
            swagger_favicon_url="data:,",
        )
        html.headers["Content-Security-Policy"] = _content_policy(bytes(html.body).decode())
        return html

    app.router.routes.append(Route(PATH, serve_page, include_in_schema=False))
    for name, kind in FILES.items():
        app.router.routes.append(Route(f"{PATH}/{name}", _file_endpoint(name, kind), include_in_schema=False))


def _file_endpoint(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def serve_file(_request: Request) -> Response:
        return FileResponse(_BUNDLED / name, media_type=kind, headers={"Cache-Control": "public, max-age=3600"})

    return serve_file


def _content_policy(html: str) -> str:
    """Return the Content-Security-Policy of the page.

    It allows the page's inline script by its hash. Swagger UI also needs inline styles and `data:` images.
    """
    digests = (hashlib.sha256(script.encode()).digest() for script in _SCRIPT.findall(html))
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src 'self' {hashes}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )
