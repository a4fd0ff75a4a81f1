"""GET /metrics for Prometheus: numbers only, so open to all unless MNEMA_METRICS_TOKEN says to whom."""

import hmac

from starlette.requests import Request
from starlette.responses import Response

from app.api.deps import application_of, bearer
from app.domain.errors import Unauthenticated
from app.usecases.operations.metrics import CONTENT_TYPE

PATH = "/metrics"


async def serve_metrics(request: Request) -> Response:
    """What this process counted and measured; each replica is asked by itself. Raises Unauthenticated."""
    app = await application_of(request)
    if token := app.settings.metrics_token.get_secret_value():
        given = await bearer(request)
        if given is None or not hmac.compare_digest(given.credentials.encode(), token.encode()):
            raise Unauthenticated("The metrics want the token of MNEMA_METRICS_TOKEN.")
    return Response(await app.read_metrics.render_text(), media_type=CONTENT_TYPE)
