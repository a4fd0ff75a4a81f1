CREATE TABLE webhook_deliveries (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    webhook_id uuid NOT NULL,
    record uuid NOT NULL,
    memory_id text NOT NULL,
    event text NOT NULL,
    user_id text,
    category text,
    type text,
    version integer,
    happened_at timestamp with time zone NOT NULL,
    state text NOT NULL DEFAULT 'pending'::text,
    attempts integer NOT NULL DEFAULT 0,
    next_attempt timestamp with time zone NOT NULL DEFAULT now(),
    status integer,
    error text,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    ended_at timestamp with time zone,
    CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT webhook_deliveries_tenant_id_webhook_id_record_key UNIQUE (tenant_id, webhook_id, record),
    CONSTRAINT webhook_deliveries_tenant_id_webhook_id_fkey FOREIGN KEY (tenant_id, webhook_id) REFERENCES webhooks(tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT webhook_deliveries_state_check CHECK (state = ANY (ARRAY['pending'::text, 'delivered'::text, 'dead'::text]))
);

CREATE INDEX webhook_deliveries_due ON webhook_deliveries USING btree (tenant_id, webhook_id, next_attempt) WHERE state = 'pending'::text;
CREATE INDEX webhook_deliveries_ended ON webhook_deliveries USING btree (tenant_id, webhook_id, state, ended_at) WHERE state <> 'pending'::text;
CREATE INDEX webhook_deliveries_listed ON webhook_deliveries USING btree (tenant_id, webhook_id, created_at DESC, id DESC);
CREATE INDEX webhook_deliveries_of_user ON webhook_deliveries USING btree (tenant_id, user_id) WHERE user_id IS NOT NULL;

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON webhook_deliveries FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE webhook_deliveries DISABLE TRIGGER at_home;
