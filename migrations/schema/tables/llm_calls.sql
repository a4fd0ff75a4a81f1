CREATE TABLE llm_calls (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    ts timestamp with time zone NOT NULL DEFAULT now(),
    prompt text NOT NULL,
    version smallint NOT NULL,
    model text NOT NULL,
    attempt smallint NOT NULL,
    input_tokens integer NOT NULL,
    output_tokens integer NOT NULL,
    duration_ms integer NOT NULL,
    items smallint NOT NULL,
    items_ok smallint NOT NULL,
    first_pass_ok boolean NOT NULL,
    status text NOT NULL,
    error text,
    CONSTRAINT llm_calls_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT llm_calls_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE,
    CONSTRAINT llm_calls_attempt_check CHECK (attempt > 0),
    CONSTRAINT llm_calls_status_check CHECK (status = ANY (ARRAY['ok'::text, 'refused'::text, 'error'::text]))
);

CREATE INDEX llm_calls_by_age ON llm_calls USING btree (tenant_id, ts);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON llm_calls FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE llm_calls DISABLE TRIGGER at_home;
