"""A filter of NiceGUI's log: it names addresses, which hold texts of people."""

import logging

NOT_FOUND = " not found"


class AddressFilter(logging.Filter):
    """Takes the addresses out of the messages about missing pages."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the record, without an address."""
        message = record.getMessage()
        if message.endswith(NOT_FOUND) and "://" in message:
            record.msg, record.args = "a page was not found", ()
        return True


def hide_addresses() -> None:
    """Add the filter to NiceGUI's logger, once."""
    log = logging.getLogger("nicegui")
    if not any(isinstance(found, AddressFilter) for found in log.filters):
        log.addFilter(AddressFilter())
