CREATE TABLE change_log (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    thread_id text NOT NULL,
    rev bigint NOT NULL,
    memory_id text NOT NULL,
    event text NOT NULL,
    category_before text,
    category_after text,
    meta jsonb NOT NULL DEFAULT '{}'::jsonb,
    ts timestamp with time zone NOT NULL DEFAULT now(),
    user_pk bigint,
    type text,
    state_before text,
    CONSTRAINT change_log_pkey PRIMARY KEY (tenant_id, id)
);

CREATE INDEX change_log_memory ON change_log USING btree (tenant_id, memory_id);
CREATE UNIQUE INDEX change_log_rev ON change_log USING btree (tenant_id, thread_id, rev DESC);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON change_log FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE change_log DISABLE TRIGGER at_home;
