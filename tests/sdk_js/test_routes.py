"""The JavaScript package calls only routes that the server has. The compiler checks the rest, where there is one."""

import re

from fastapi.routing import APIRoute

from app.api.main import ROUTERS
from tests.sdk_js.conftest import PACKAGE


def test_the_routes_of_the_package_are_the_servers() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in sorted((PACKAGE / "src").glob("*.ts")))
    called = set(re.findall(r'\.(GET|POST|PUT|PATCH|DELETE)\("(/[^"]*)"', sources))
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    served = {(method, route.path_format) for route in routes for method in route.methods}
    assert len(called) > 5
    assert called <= served
