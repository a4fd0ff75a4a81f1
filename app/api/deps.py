"""From an API key to a Scope, and from the request to the application."""

from typing import Annotated, cast

import structlog
from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from app.bootstrap import Application
from app.domain.errors import ScopeRequired, Unauthenticated
from app.domain.principal import Principal

bearer = HTTPBearer(auto_error=False, description="An API key: `mnema key create`")
MAX_KEY_CHARS = 256


async def application_of(request: Request) -> Application:
    """The application this server was started with; async, or each request would wait for a thread to say so."""
    return cast(Application, request.app.state.application)


App = Annotated[Application, Depends(application_of)]


async def identify_principal(app: Application, credentials: HTTPAuthorizationCredentials | None) -> Principal:
    """The scope an API key stands for; raises Unauthenticated."""
    if credentials is None or not 1 <= len(credentials.credentials) <= MAX_KEY_CHARS:
        raise Unauthenticated()
    scope = await app.tenants.authenticate(credentials.credentials)
    if scope is None:
        raise Unauthenticated("The API key is unknown, revoked or expired.")
    structlog.contextvars.bind_contextvars(tenant_id=str(scope.tenant_id))
    return scope


async def recheck_key(app: Application, request: Request) -> None:
    """Raise Unauthenticated if the key of a request that takes long was revoked or has expired since it began."""
    await identify_principal(app, await bearer(request))


async def admit_principal(app: Application, credentials: HTTPAuthorizationCredentials | None) -> Principal:
    """The same of a request that counts against the limits; raises Unauthenticated, RateLimited."""
    scope = await identify_principal(app, credentials)
    await app.limits.admit_request(scope)
    return scope


def has_scope(scope: Principal, name: str) -> bool:
    """Whether the key has this scope; `admin` includes every other."""
    return name in scope.scopes or "admin" in scope.scopes


def require_scope(scope: Principal, name: str) -> None:
    """Raise ScopeRequired unless the key has this scope."""
    if not has_scope(scope, name):
        raise ScopeRequired(f"this route needs a key with scope {name!r}")


class RequireScope:
    """A dependency: the scope of the admitted key; one of the key's scopes may be demanded."""

    def __init__(self, scope_name: str | None = None) -> None:
        self._scope_name = scope_name

    async def __call__(
        self, request: Request, _documented: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]
    ) -> Principal:
        """See `admitted`."""
        return self.admitted_principal(request)

    def admitted_principal(self, request: Request) -> Principal:
        """The key's scope, which `app.api.transport.admission` has checked; raises ScopeRequired."""
        scope: Principal = request.state.caller
        if self._scope_name is not None:
            require_scope(scope, self._scope_name)
        return scope


AnyPrincipal = Annotated[Principal, Depends(RequireScope())]
"""Which scope is needed depends on what is asked."""
Reader = Annotated[Principal, Depends(RequireScope("query"))]
Writer = Annotated[Principal, Depends(RequireScope("write"))]
Approver = Annotated[Principal, Depends(RequireScope("approve"))]
Administrator = Annotated[Principal, Depends(RequireScope("admin"))]
