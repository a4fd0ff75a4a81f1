CREATE TABLE blobs (
    tenant_id uuid NOT NULL,
    uri text NOT NULL,
    user_id text NOT NULL,
    created_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT blobs_pkey PRIMARY KEY (tenant_id, uri),
    CONSTRAINT blobs_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE,
    CONSTRAINT blobs_uri_check CHECK (length(uri) >= 1 AND length(uri) <= 2048)
);

CREATE INDEX blobs_by_age ON blobs USING btree (tenant_id, created_at);
CREATE INDEX blobs_of_user ON blobs USING btree (tenant_id, user_id);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON blobs FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE blobs DISABLE TRIGGER at_home;
