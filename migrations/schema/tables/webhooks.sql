CREATE TABLE webhooks (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    url text NOT NULL,
    events text[] NOT NULL,
    categories text[] NOT NULL,
    user_id text,
    conditions text,
    with_memory boolean NOT NULL,
    secret bytea NOT NULL,
    former_secret bytea,
    former_until timestamp with time zone,
    state text NOT NULL DEFAULT 'enabled'::text,
    reason text,
    stamp bigint NOT NULL,
    record uuid NOT NULL,
    due_at timestamp with time zone NOT NULL DEFAULT now(),
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    updated_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT webhooks_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT webhooks_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE,
    CONSTRAINT webhooks_conditions_check CHECK (octet_length(conditions) <= 16384),
    CONSTRAINT webhooks_former_secret_check CHECK (length(former_secret) <= 4096),
    CONSTRAINT webhooks_secret_check CHECK (length(secret) <= 4096),
    CONSTRAINT webhooks_state_check CHECK (state = ANY (ARRAY['enabled'::text, 'disabled'::text])),
    CONSTRAINT webhooks_url_check CHECK (length(url) >= 1 AND length(url) <= 2048)
);

CREATE INDEX webhooks_due ON webhooks USING btree (due_at) WHERE state = 'enabled'::text;

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON webhooks FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE webhooks DISABLE TRIGGER at_home;
