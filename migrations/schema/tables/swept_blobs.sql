CREATE TABLE swept_blobs (
    tenant_id uuid NOT NULL,
    uri text NOT NULL,
    swept_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
    deleted boolean NOT NULL DEFAULT false,
    CONSTRAINT swept_blobs_pkey PRIMARY KEY (tenant_id, uri),
    CONSTRAINT swept_blobs_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE
);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON swept_blobs FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE swept_blobs DISABLE TRIGGER at_home;
