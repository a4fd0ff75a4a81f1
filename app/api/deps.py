"""FastAPI dependencies: the application of a request, and the principal of its API key."""

from typing import Annotated, cast

import structlog
from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.security.utils import get_authorization_scheme_param
from starlette.datastructures import Headers

from app.bootstrap import Application
from app.domain.errors import ScopeRequired, Unauthenticated
from app.domain.principal import Principal
from app.shares import acting_tenant

operator_bearer = HTTPBearer(
    auto_error=False, scheme_name="OperatorKey", description="The key in the file MNEMA_OPERATOR_KEY_FILE"
)


bearer = HTTPBearer(auto_error=False, scheme_name="HTTPBearer", description="An API key: `mnema key create`")
MAX_KEY_CHARS = 256


async def application_of(request: Request) -> Application:
    """Return the application that this server runs.

    The function is async because FastAPI runs a sync dependency in a thread, and each request would wait for it.
    """
    return cast(Application, request.app.state.application)


App = Annotated[Application, Depends(application_of)]


def read_key(headers: Headers) -> str | None:
    """Return the API key of a request, None without any.

    The header is `Authorization: Bearer KEY`. Other clients send it in their own way: mem0's as `Token KEY`,
    Anthropic's in `x-api-key`.
    """
    scheme, key = get_authorization_scheme_param(headers.get("authorization"))
    if not scheme:
        return headers.get("x-api-key")
    return key if scheme.lower() in ("bearer", "token") else None


async def identify_principal(app: Application, request: Request, grace_s: float = 0.0) -> Principal:
    """Return the principal of the request's API key. Raise Unauthenticated if there is no key or it is not valid.

    The request holds a lease on the key from now on: it ends when the key does. While the database is away, a key that
    was valid counts as valid for `grace_s` seconds.
    """
    key = read_key(request.headers)
    if not key or len(key) > MAX_KEY_CHARS:
        raise Unauthenticated()
    principal = await app.tenancy.tenants.authenticate(key, grace_s)
    if principal is None:
        raise Unauthenticated("The API key is unknown, revoked or expired.")
    structlog.contextvars.bind_contextvars(tenant_id=str(principal.tenant_id))
    acting_tenant.set(principal.tenant_id)
    request.state.lease_watch.begin(app.tenancy.tenants, key, grace_s)
    return principal


async def admit_principal(app: Application, request: Request, grace_s: float = 0.0) -> Principal:
    """Return the principal of the request's key and count the request against its limits; see `identify_principal`.

    Raise Unauthenticated or RateLimited.
    """
    principal = await identify_principal(app, request, grace_s)
    await app.tenancy.limits.admit_request(principal)
    return principal


async def renew_principal(app: Application, request: Request) -> Principal:
    """Return the principal of an admitted request as its key is now. Raise Unauthenticated if the key has ended."""
    key = read_key(request.headers)
    principal = await app.tenancy.tenants.authenticate(key) if key else None
    if principal is None:
        raise Unauthenticated("The API key is unknown, revoked or expired.")
    return principal


async def admit_operator(app: Application, request: Request) -> None:
    """Check the operator key of a request. Raise OperatorDisabled, Unauthenticated or TooManyAttempts."""
    credentials = await operator_bearer(request)
    key = credentials.credentials if credentials and len(credentials.credentials) <= MAX_KEY_CHARS else None
    app.tenancy.operators.admit_operator(request.client.host if request.client else None, key)
    request.state.is_operator = True


async def require_operator(
    request: Request, _documented: Annotated[HTTPAuthorizationCredentials | None, Security(operator_bearer)]
) -> None:
    """Raise Unauthenticated unless `app.api.transport.admission` has checked the operator key."""
    if getattr(request.state, "is_operator", False) is not True:
        raise Unauthenticated()


def require_scope(principal: Principal, name: str) -> None:
    """Raise ScopeRequired unless the key has the scope `name`."""
    if not principal.has_scope(name):
        raise ScopeRequired(f"this route needs a key with scope {name!r}")


class RequireScope:
    """A FastAPI dependency that returns the principal of the admitted key.

    With `scope_name` the key must have that scope.
    """

    def __init__(self, scope_name: str | None = None) -> None:
        self.scope_name = scope_name

    async def __call__(
        self, request: Request, _documented: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]
    ) -> Principal:
        """Return the principal; see `admitted_principal`."""
        return self.admitted_principal(request)

    def admitted_principal(self, request: Request) -> Principal:
        """Return the principal that `app.api.transport.admission` stored in the request. Raise ScopeRequired."""
        principal: Principal = request.state.caller
        if self.scope_name is not None:
            require_scope(principal, self.scope_name)
        return principal


AnyPrincipal = Annotated[Principal, Depends(RequireScope())]
"""A principal with any scope: the route itself checks the scope that the body needs."""
Reader = Annotated[Principal, Depends(RequireScope("query"))]
Writer = Annotated[Principal, Depends(RequireScope("write"))]
Chatter = Annotated[Principal, Depends(RequireScope("chat"))]
Approver = Annotated[Principal, Depends(RequireScope("approve"))]
Administrator = Annotated[Principal, Depends(RequireScope("admin"))]
