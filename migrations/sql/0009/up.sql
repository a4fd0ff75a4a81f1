-- Webhooks. One is a durable subscriber of the stream of changes: history is its outbox, and `stamp` and `record` are
-- its place in it. A delivery is made in the transaction that moves the place, so none is lost and none is made twice.

CREATE TABLE webhooks (
    tenant_id     uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id            uuid NOT NULL,
    url           text NOT NULL CHECK (length(url) BETWEEN 1 AND 2048),
    events        text[] NOT NULL,                -- empty: all
    categories    text[] NOT NULL,                -- empty: all
    user_id       text,                           -- null: all
    conditions    text CHECK (octet_length(conditions) <= 16384),  -- a filter as JSON; null: none
    with_memory   boolean NOT NULL,
    secret        bytea NOT NULL CHECK (length(secret) <= 4096),  -- encrypted for this tenant and webhook
    former_secret bytea CHECK (length(former_secret) <= 4096),    -- signs too until former_until
    former_until  timestamptz,
    state         text NOT NULL DEFAULT 'enabled' CHECK (state IN ('enabled', 'disabled')),
    reason        text,                           -- why Mnema disabled it
    stamp         bigint NOT NULL,
    record        uuid NOT NULL,
    due_at        timestamptz NOT NULL DEFAULT now(),  -- a worker that serves it moves this forward
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX webhooks_due ON webhooks (due_at) WHERE state = 'enabled';

CREATE TABLE webhook_deliveries (
    tenant_id    uuid NOT NULL,
    id           uuid NOT NULL,
    webhook_id   uuid NOT NULL,
    record       uuid NOT NULL,                   -- of history
    memory_id    text NOT NULL,
    event        text NOT NULL,
    user_id      text,
    category     text,
    type         text,
    version      integer,
    happened_at  timestamptz NOT NULL,
    state        text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'dead')),
    attempts     integer NOT NULL DEFAULT 0,
    next_attempt timestamptz NOT NULL DEFAULT now(),
    status       integer,                         -- of the last answer
    error        text,                            -- a word of ours for the last failure
    created_at   timestamptz NOT NULL DEFAULT now(),
    ended_at     timestamptz,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, webhook_id, record),
    FOREIGN KEY (tenant_id, webhook_id) REFERENCES webhooks ON DELETE CASCADE
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (tenant_id, webhook_id, next_attempt) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_listed ON webhook_deliveries (tenant_id, webhook_id, created_at DESC, id DESC);
CREATE INDEX webhook_deliveries_of_user ON webhook_deliveries (tenant_id, user_id) WHERE user_id IS NOT NULL;

ALTER TABLE webhooks ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhooks FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON webhooks USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
ALTER TABLE webhook_deliveries ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhook_deliveries FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON webhook_deliveries USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON webhooks, webhook_deliveries TO mnema_app;

SELECT plan_for_largest_tenant('webhooks');
SELECT plan_for_largest_tenant('webhook_deliveries');

-- Return the enabled webhooks of all tenants that nobody serves now, the longest waiting first.
CREATE FUNCTION due_webhooks(p_limit int) RETURNS TABLE (tenant_id uuid, id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT w.tenant_id, w.id FROM webhooks w WHERE w.state = 'enabled' AND w.due_at <= now()
    ORDER BY w.due_at LIMIT p_limit;
$$;
REVOKE ALL ON FUNCTION due_webhooks(int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION due_webhooks(int) TO mnema_app;
GRANT SELECT (tenant_id, id, state, due_at) ON webhooks TO mnema_jobs;
CREATE POLICY claim ON webhooks FOR SELECT TO mnema_jobs USING (true);
GRANT CREATE ON SCHEMA public TO mnema_jobs;  -- only an owner who may create can own
ALTER FUNCTION due_webhooks(int) OWNER TO mnema_jobs;
REVOKE CREATE ON SCHEMA public FROM mnema_jobs;
