CREATE TABLE files (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    source_id uuid NOT NULL,
    user_id text NOT NULL,
    path text NOT NULL,
    filetype text,
    size bigint NOT NULL,
    modified_at timestamp with time zone NOT NULL,
    stamp text NOT NULL,
    hash bytea,
    settings text NOT NULL,
    state text NOT NULL,
    reason text,
    detail text,
    encoding text,
    characters bigint NOT NULL DEFAULT 0,
    chunk_count integer NOT NULL DEFAULT 0,
    hosted_uri text,
    indexed_at timestamp with time zone,
    index_job_id uuid,
    created_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT files_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT files_tenant_id_source_id_path_key UNIQUE (tenant_id, source_id, path),
    CONSTRAINT files_tenant_id_hosted_uri_fkey FOREIGN KEY (tenant_id, hosted_uri) REFERENCES blobs(tenant_id, uri),
    CONSTRAINT files_tenant_id_source_id_fkey FOREIGN KEY (tenant_id, source_id) REFERENCES sources(tenant_id, id),
    CONSTRAINT files_check CHECK ((state = 'rejected'::text) = (reason IS NOT NULL)),
    CONSTRAINT files_state_check CHECK (state = ANY (ARRAY['waiting'::text, 'indexed'::text, 'rejected'::text]))
);

CREATE INDEX files_blob ON files USING btree (tenant_id, hosted_uri) WHERE hosted_uri IS NOT NULL;
CREATE INDEX files_by_state ON files USING btree (tenant_id, source_id, state, path);
CREATE INDEX files_of_user ON files USING btree (tenant_id, user_id, id);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON files FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE files DISABLE TRIGGER at_home;
