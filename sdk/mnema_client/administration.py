"""The methods for people who look after a tenant: overview, receipts, batches, jobs and rules."""

from mnema_client import api_keys, batches, calls, overview, places, receipts, tenant_rules, webhooks
from mnema_client.methods import Method, PagesMethod


class AdministrationMethods:
    """The methods of both clients for people who look after a tenant.

    `list_…` yields all items; `…_page` returns one page, whose `next_cursor` leads to the next one.
    """

    # what the tenant holds: users, threads, agents, categories, events, relations and its own key
    describe_key = Method(overview.describe_key)
    list_users = PagesMethod(overview.user_page)
    user_page = Method(overview.user_page)
    list_threads = PagesMethod(overview.thread_page)
    thread_page = Method(overview.thread_page)
    list_agents = PagesMethod(overview.agent_page)
    list_categories = PagesMethod(overview.category_page)
    list_events = PagesMethod(overview.event_page)
    event_page = Method(overview.event_page)
    relations = Method(overview.relations)

    # receipts and usage
    list_queries = PagesMethod(receipts.query_page)
    query_page = Method(receipts.query_page)
    get_query = Method(receipts.get_query)
    memory_uses = PagesMethod(receipts.memory_uses)
    usage = PagesMethod(receipts.usage)

    # batches
    edit_matching = Method(batches.edit_matching)
    delete_matching = Method(batches.delete_matching)
    undo_batch = Method(batches.undo_batch)
    list_batches = PagesMethod(batches.batch_page)
    get_batch = Method(batches.get_batch)

    # background jobs; all but the trace of a turn need scope admin
    job_page = Method(calls.jobs)
    pause_jobs = Method(calls.pause_jobs)
    resume_jobs = Method(calls.resume_jobs)
    replay_job = Method(calls.replay_job)
    turn_trace = Method(calls.turn_trace)

    # the tenant's own rules, which need scope admin
    tenant_config = Method(tenant_rules.tenant_config)
    put_tenant_config = Method(tenant_rules.put_tenant_config)
    tenant_config_history = PagesMethod(tenant_rules.tenant_config_page)
    tenant_config_page = Method(tenant_rules.tenant_config_page)
    tenant_config_version = Method(tenant_rules.tenant_config_version)
    tenant_config_diff = Method(tenant_rules.tenant_config_diff)
    rollback_tenant_config = Method(tenant_rules.rollback_tenant_config)

    # the tenant's API keys, which need scope admin
    list_keys = PagesMethod(api_keys.key_page)
    key_page = Method(api_keys.key_page)
    create_key = Method(api_keys.create_key)
    revoke_key = Method(api_keys.revoke_key)

    # the tenant's place among the clusters, which needs scope admin
    tenant_place = Method(places.tenant_place)
    request_move = Method(places.request_move)
    abort_move = Method(places.abort_move)

    # webhooks, which need scope admin
    create_webhook = Method(webhooks.create_webhook)
    list_webhooks = Method(webhooks.list_webhooks)
    get_webhook = Method(webhooks.get_webhook)
    change_webhook = Method(webhooks.change_webhook)
    rotate_webhook_secret = Method(webhooks.rotate_webhook_secret)
    delete_webhook = Method(webhooks.delete_webhook)
    test_webhook = Method(webhooks.test_webhook)
    webhook_deliveries = PagesMethod(webhooks.webhook_deliveries)
    replay_webhook = Method(webhooks.replay_webhook)
