"""The methods of both clients on a tenant's own rules."""

from mnema_client import tenant_rules
from mnema_client.methods import async_method, async_pages, sync_method, sync_pages


class ConfigMethods:
    """The methods of `Mnema` on the rules of the key's tenant. They need a key with scope admin."""

    tenant_config = sync_method(tenant_rules.tenant_config)
    put_tenant_config = sync_method(tenant_rules.put_tenant_config)
    tenant_config_history = sync_pages(tenant_rules.tenant_config_page)
    tenant_config_page = sync_method(tenant_rules.tenant_config_page)
    tenant_config_version = sync_method(tenant_rules.tenant_config_version)
    tenant_config_diff = sync_method(tenant_rules.tenant_config_diff)
    rollback_tenant_config = sync_method(tenant_rules.rollback_tenant_config)


class AsyncConfigMethods:
    """The methods of `AsyncMnema` on the rules of the key's tenant. They need a key with scope admin."""

    tenant_config = async_method(tenant_rules.tenant_config)
    put_tenant_config = async_method(tenant_rules.put_tenant_config)
    tenant_config_history = async_pages(tenant_rules.tenant_config_page)
    tenant_config_page = async_method(tenant_rules.tenant_config_page)
    tenant_config_version = async_method(tenant_rules.tenant_config_version)
    tenant_config_diff = async_method(tenant_rules.tenant_config_diff)
    rollback_tenant_config = async_method(tenant_rules.rollback_tenant_config)
