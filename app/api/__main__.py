"""`python -m app.api`, which `mnema serve` becomes: the HTTP API on one address."""

from app.api.main import create_app
from app.api.transport.serving import main

if __name__ == "__main__":
    main(create_app)
