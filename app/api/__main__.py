"""`python -m app.api`, which `mnema serve` becomes: the HTTP API on one address, by one process or by several."""

import gc
import sys

from app.api.transport.options import read_options

if __name__ == "__main__":
    options = read_options()
    if options.workers > 1:
        from app.api.transport.supervisor import supervise  # it needs none of the application

        sys.exit(supervise(options))
    gc.disable()  # collections would take a tenth of the start; the server enables them when it serves
    from app.api.main import create_app
    from app.api.transport.serving import main

    main(lambda worker: create_app(worker=worker), options)
