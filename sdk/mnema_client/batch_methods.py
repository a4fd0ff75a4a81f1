"""The methods of both clients on batches."""

from mnema_client import batches
from mnema_client.methods import async_method, async_pages, sync_method, sync_pages


class BatchMethods:
    """The methods of `Mnema` on batches."""

    edit_matching = sync_method(batches.edit_matching)
    delete_matching = sync_method(batches.delete_matching)
    undo_batch = sync_method(batches.undo_batch)
    list_batches = sync_pages(batches.batch_page)
    get_batch = sync_method(batches.get_batch)


class AsyncBatchMethods:
    """The methods of `AsyncMnema` on batches."""

    edit_matching = async_method(batches.edit_matching)
    delete_matching = async_method(batches.delete_matching)
    undo_batch = async_method(batches.undo_batch)
    list_batches = async_pages(batches.batch_page)
    get_batch = async_method(batches.get_batch)
