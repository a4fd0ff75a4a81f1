CREATE TABLE chat_upstreams (
    tenant_id uuid NOT NULL,
    base_url text NOT NULL,
    api_key bytea NOT NULL,
    updated_at timestamp with time zone NOT NULL DEFAULT now(),
    dialect text NOT NULL DEFAULT 'openai'::text,
    CONSTRAINT chat_upstreams_pkey PRIMARY KEY (tenant_id, dialect),
    CONSTRAINT chat_upstreams_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE,
    CONSTRAINT chat_upstreams_api_key_check CHECK (length(api_key) <= 16384),
    CONSTRAINT chat_upstreams_base_url_check CHECK (length(base_url) >= 1 AND length(base_url) <= 2048),
    CONSTRAINT chat_upstreams_dialect_check CHECK (dialect = ANY (ARRAY['openai'::text, 'anthropic'::text]))
);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON chat_upstreams FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE chat_upstreams DISABLE TRIGGER at_home;
