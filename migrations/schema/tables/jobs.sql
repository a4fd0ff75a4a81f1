CREATE TABLE jobs (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    kind text NOT NULL,
    state text NOT NULL DEFAULT 'queued'::text,
    user_id text,
    payload jsonb NOT NULL DEFAULT '{}'::jsonb,
    payload_hash text NOT NULL GENERATED ALWAYS AS (md5(payload::text)) STORED,
    slot text,
    attempts integer NOT NULL DEFAULT 0,
    next_run timestamp with time zone NOT NULL DEFAULT now(),
    published_at timestamp with time zone,
    lease_until timestamp with time zone,
    worker text,
    last_error text,
    report jsonb,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    updated_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT jobs_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT jobs_tenant_id_kind_slot_key UNIQUE (tenant_id, kind, slot),
    CONSTRAINT jobs_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE,
    CONSTRAINT jobs_state_check CHECK (state = ANY (ARRAY['queued'::text, 'running'::text, 'done'::text, 'dead'::text]))
) WITH (fillfactor=70);

CREATE INDEX jobs_dead ON jobs USING btree (tenant_id, kind, created_at) WHERE state = 'dead'::text;
CREATE INDEX jobs_due ON jobs USING btree (next_run) WHERE state = ANY (ARRAY['queued'::text, 'running'::text]);
CREATE INDEX jobs_ended ON jobs USING btree (tenant_id, updated_at) WHERE state = ANY (ARRAY['done'::text, 'dead'::text]);
CREATE INDEX jobs_listed ON jobs USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX jobs_of_user ON jobs USING btree (tenant_id, user_id) WHERE user_id IS NOT NULL;
CREATE INDEX jobs_same_fact ON jobs USING btree (tenant_id, user_id) WHERE kind = 'same_fact'::text AND state = 'queued'::text;

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON jobs FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE jobs DISABLE TRIGGER at_home;
CREATE TRIGGER jobs_index_failed AFTER UPDATE OF state ON jobs FOR EACH ROW WHEN (new.kind = 'index_source'::text AND new.state = 'dead'::text AND old.state <> 'dead'::text) EXECUTE FUNCTION fail_index_job();
