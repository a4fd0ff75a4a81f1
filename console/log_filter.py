"""A filter of logs that name addresses: NiceGUI's and the web server's. Addresses hold texts of people."""

import logging

NOT_FOUND = " not found"
WEBSOCKET = '"WebSocket %s"'
"""Part of the web server's messages about a websocket: its address follows."""


class AddressFilter(logging.Filter):
    """Takes the addresses out of the messages about missing pages, and leaves messages about websockets out."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if the record is kept; it has no address then."""
        if WEBSOCKET in str(record.msg):
            return False
        message = record.getMessage()
        if message.endswith(NOT_FOUND) and "://" in message:
            record.msg = "a page was not found"
            record.args = ()
        return True


def hide_addresses() -> None:
    """Add the filter to the loggers, once."""
    for log in (logging.getLogger("nicegui"), logging.getLogger("uvicorn.error")):
        if not any(isinstance(found, AddressFilter) for found in log.filters):
            log.addFilter(AddressFilter())
