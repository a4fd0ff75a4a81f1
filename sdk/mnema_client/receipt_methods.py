"""The methods of both clients on receipts and usage."""

from mnema_client import receipts
from mnema_client.methods import async_method, async_pages, sync_method, sync_pages


class ReceiptMethods:
    """The methods of `Mnema` on receipts and usage."""

    list_queries = sync_pages(receipts.query_page)
    query_page = sync_method(receipts.query_page)
    get_query = sync_method(receipts.get_query)
    memory_uses = sync_pages(receipts.memory_uses)
    usage = sync_pages(receipts.usage)


class AsyncReceiptMethods:
    """The methods of `AsyncMnema` on receipts and usage."""

    list_queries = async_pages(receipts.query_page)
    query_page = async_method(receipts.query_page)
    get_query = async_method(receipts.get_query)
    memory_uses = async_pages(receipts.memory_uses)
    usage = async_pages(receipts.usage)
