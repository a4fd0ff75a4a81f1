"""Route of GET /metrics for Prometheus. It answers only numbers. It needs no key, only MNEMA_METRICS_TOKEN if set."""

import hmac

from starlette.requests import Request
from starlette.responses import Response

from app.api.deps import application_of, read_key
from app.domain.errors import Unauthenticated
from app.usecases.operations.metrics import CONTENT_TYPE

PATH = "/metrics"


async def serve_metrics(request: Request) -> Response:
    """Answer the metrics of this server with all its workers. Scrape each replica by itself.

    Raise Unauthenticated for a wrong token.
    """
    app = await application_of(request)
    if token := app.parts.settings.metrics_token.get_secret_value():
        given = read_key(request.headers) or ""
        if not hmac.compare_digest(given.encode(), token.encode()):
            raise Unauthenticated("/metrics needs the token of MNEMA_METRICS_TOKEN as bearer token.")
    return Response(await app.operations.metrics.render_text(), media_type=CONTENT_TYPE)
