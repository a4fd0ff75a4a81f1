CREATE TABLE idempotency_keys (
    tenant_id uuid NOT NULL,
    key_id uuid NOT NULL,
    route text NOT NULL,
    key text NOT NULL,
    body_hash bytea NOT NULL,
    response jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    user_id text,
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant_id, key_id, route, key)
);

CREATE INDEX idempotency_keys_by_age ON idempotency_keys USING btree (tenant_id, created_at);
CREATE INDEX idempotency_keys_of_user ON idempotency_keys USING btree (tenant_id, user_id) WHERE user_id IS NOT NULL;

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON idempotency_keys FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE idempotency_keys DISABLE TRIGGER at_home;
