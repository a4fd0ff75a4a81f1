"""The methods for people who look after a tenant: overview, receipts, batches, jobs and rules."""

from mnema_client import background_jobs, batches, calls, overview, receipts, tenant_rules
from mnema_client.methods import async_method, async_pages, sync_method, sync_pages


class AdministrationMethods:
    """The methods of `Mnema` for people who look after a tenant.

    `list_…` yields all items; `…_page` returns one page, whose `next_cursor` leads to the next one.
    """

    # what the tenant holds: users, threads, agents, categories, events, relations and its own key
    describe_key = sync_method(overview.describe_key)
    list_users = sync_pages(overview.user_page)
    user_page = sync_method(overview.user_page)
    list_threads = sync_pages(overview.thread_page)
    thread_page = sync_method(overview.thread_page)
    list_agents = sync_pages(overview.agent_page)
    list_categories = sync_pages(overview.category_page)
    list_events = sync_pages(overview.event_page)
    event_page = sync_method(overview.event_page)
    relations = sync_method(overview.relations)

    # receipts and usage
    list_queries = sync_pages(receipts.query_page)
    query_page = sync_method(receipts.query_page)
    get_query = sync_method(receipts.get_query)
    memory_uses = sync_pages(receipts.memory_uses)
    usage = sync_pages(receipts.usage)

    # batches
    edit_matching = sync_method(batches.edit_matching)
    delete_matching = sync_method(batches.delete_matching)
    undo_batch = sync_method(batches.undo_batch)
    list_batches = sync_pages(batches.batch_page)
    get_batch = sync_method(batches.get_batch)

    # background jobs; all but the trace of a turn need scope admin
    job_page = sync_method(calls.jobs)
    pause_jobs = sync_method(background_jobs.pause_jobs)
    resume_jobs = sync_method(background_jobs.resume_jobs)
    replay_job = sync_method(background_jobs.replay_job)
    turn_trace = sync_method(background_jobs.turn_trace)

    # the tenant's own rules, which need scope admin
    tenant_config = sync_method(tenant_rules.tenant_config)
    put_tenant_config = sync_method(tenant_rules.put_tenant_config)
    tenant_config_history = sync_pages(tenant_rules.tenant_config_page)
    tenant_config_page = sync_method(tenant_rules.tenant_config_page)
    tenant_config_version = sync_method(tenant_rules.tenant_config_version)
    tenant_config_diff = sync_method(tenant_rules.tenant_config_diff)
    rollback_tenant_config = sync_method(tenant_rules.rollback_tenant_config)


class AsyncAdministrationMethods:
    """The methods of `AsyncMnema` for people who look after a tenant.

    `list_…` yields all items; `…_page` returns one page, whose `next_cursor` leads to the next one.
    """

    # what the tenant holds: users, threads, agents, categories, events, relations and its own key
    describe_key = async_method(overview.describe_key)
    list_users = async_pages(overview.user_page)
    user_page = async_method(overview.user_page)
    list_threads = async_pages(overview.thread_page)
    thread_page = async_method(overview.thread_page)
    list_agents = async_pages(overview.agent_page)
    list_categories = async_pages(overview.category_page)
    list_events = async_pages(overview.event_page)
    event_page = async_method(overview.event_page)
    relations = async_method(overview.relations)

    # receipts and usage
    list_queries = async_pages(receipts.query_page)
    query_page = async_method(receipts.query_page)
    get_query = async_method(receipts.get_query)
    memory_uses = async_pages(receipts.memory_uses)
    usage = async_pages(receipts.usage)

    # batches
    edit_matching = async_method(batches.edit_matching)
    delete_matching = async_method(batches.delete_matching)
    undo_batch = async_method(batches.undo_batch)
    list_batches = async_pages(batches.batch_page)
    get_batch = async_method(batches.get_batch)

    # background jobs; all but the trace of a turn need scope admin
    job_page = async_method(calls.jobs)
    pause_jobs = async_method(background_jobs.pause_jobs)
    resume_jobs = async_method(background_jobs.resume_jobs)
    replay_job = async_method(background_jobs.replay_job)
    turn_trace = async_method(background_jobs.turn_trace)

    # the tenant's own rules, which need scope admin
    tenant_config = async_method(tenant_rules.tenant_config)
    put_tenant_config = async_method(tenant_rules.put_tenant_config)
    tenant_config_history = async_pages(tenant_rules.tenant_config_page)
    tenant_config_page = async_method(tenant_rules.tenant_config_page)
    tenant_config_version = async_method(tenant_rules.tenant_config_version)
    tenant_config_diff = async_method(tenant_rules.tenant_config_diff)
    rollback_tenant_config = async_method(tenant_rules.rollback_tenant_config)
