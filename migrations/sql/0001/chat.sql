-- Chat with memory: each tenant's own chat endpoint.

CREATE TABLE chat_upstreams (
    tenant_id   uuid PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE,
    base_url    text NOT NULL CHECK (length(base_url) BETWEEN 1 AND 2048),
    -- encrypted for this tenant and URL; empty: none is needed
    api_key     bytea NOT NULL CHECK (length(api_key) <= 16384),
    updated_at  timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT, DELETE, UPDATE (base_url, api_key, updated_at) ON chat_upstreams TO mnema_app;
