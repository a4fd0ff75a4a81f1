"""The builder of the capability `receipts`: records of the answers that agents got, and usage."""

from dataclasses import dataclass

from app.bootstrap.parts import SharedParts
from app.storage.memory.memories import MemoryStorage
from app.storage.receipts.receipts import ReceiptStorage
from app.storage.receipts.usage import UsageStorage
from app.storage.tenancy.tenants import TenantStorage
from app.usecases.receipts.read import ReadReceipts
from app.usecases.receipts.tenant_usage import ReadTenantUsage
from app.usecases.receipts.usage import ReadUsage


@dataclass(frozen=True, slots=True)
class ReceiptUseCases:
    """The use-cases of the capability."""

    read: ReadReceipts
    usage: ReadUsage
    by_tenant: ReadTenantUsage


def build_receipts(parts: SharedParts) -> ReceiptUseCases:
    """Build the use-cases that read receipts and usage."""
    memories = MemoryStorage(parts.uow, parts.space.name)
    usage = ReadUsage(parts.uow, UsageStorage(), parts.access, parts.clock)
    return ReceiptUseCases(
        read=ReadReceipts(parts.uow, ReceiptStorage(), memories, parts.access, parts.policies),
        usage=usage,
        by_tenant=ReadTenantUsage(TenantStorage(parts.uow), usage),
    )
