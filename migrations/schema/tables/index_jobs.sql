CREATE TABLE index_jobs (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    source_id uuid NOT NULL,
    user_id text NOT NULL,
    job_id uuid NOT NULL,
    kind text NOT NULL,
    cause text NOT NULL,
    state text NOT NULL,
    files_total integer,
    files_done integer NOT NULL DEFAULT 0,
    added integer NOT NULL DEFAULT 0,
    changed integer NOT NULL DEFAULT 0,
    unchanged integer NOT NULL DEFAULT 0,
    removed integer NOT NULL DEFAULT 0,
    rejected integer NOT NULL DEFAULT 0,
    chunks_added integer NOT NULL DEFAULT 0,
    chunks_kept integer NOT NULL DEFAULT 0,
    chunks_removed integer NOT NULL DEFAULT 0,
    bytes_read bigint NOT NULL DEFAULT 0,
    error text,
    created_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    updated_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT index_jobs_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT index_jobs_tenant_id_source_id_fkey FOREIGN KEY (tenant_id, source_id) REFERENCES sources(tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT index_jobs_cause_check CHECK (cause = ANY (ARRAY['added'::text, 'request'::text, 'upload'::text, 'watch'::text, 'schedule'::text, 'removed'::text])),
    CONSTRAINT index_jobs_kind_check CHECK (kind = ANY (ARRAY['sync'::text, 'removal'::text])),
    CONSTRAINT index_jobs_state_check CHECK (state = ANY (ARRAY['queued'::text, 'running'::text, 'done'::text, 'failed'::text]))
);

CREATE INDEX index_jobs_listed ON index_jobs USING btree (tenant_id, source_id, created_at DESC, id DESC);
CREATE UNIQUE INDEX index_jobs_open ON index_jobs USING btree (tenant_id, source_id, state) WHERE state = ANY (ARRAY['queued'::text, 'running'::text]);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON index_jobs FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE index_jobs DISABLE TRIGGER at_home;
