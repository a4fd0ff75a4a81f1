"""The OpenAPI document without a server: `python -m app.api.document` prints it as JSON."""

import json
import sys

from app.api.main import create_app

if __name__ == "__main__":
    sys.stdout.write(json.dumps(create_app().openapi(), ensure_ascii=False))
