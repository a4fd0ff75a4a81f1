"""The methods for people who look after a tenant: overview, receipts, batches, jobs and rules."""

from mnema_client.batch_methods import AsyncBatchMethods, BatchMethods
from mnema_client.config_methods import AsyncConfigMethods, ConfigMethods
from mnema_client.job_methods import AsyncJobMethods, JobMethods
from mnema_client.overview_methods import AsyncOverviewMethods, OverviewMethods
from mnema_client.receipt_methods import AsyncReceiptMethods, ReceiptMethods


class AdministrationMethods(BatchMethods, ConfigMethods, JobMethods, OverviewMethods, ReceiptMethods):
    """The methods of a synchronous client."""


class AsyncAdministrationMethods(
    AsyncBatchMethods, AsyncConfigMethods, AsyncJobMethods, AsyncOverviewMethods, AsyncReceiptMethods
):
    """The methods of an asynchronous client."""
