CREATE TABLE placements (
    tenant_id uuid NOT NULL,
    cluster text NOT NULL,
    epoch bigint NOT NULL DEFAULT 1,
    region text,
    changed_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT placements_pkey PRIMARY KEY (tenant_id),
    CONSTRAINT placements_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE,
    CONSTRAINT placements_region_check CHECK (length(region) >= 1 AND length(region) <= 63)
);

CREATE INDEX placements_changed ON placements USING btree (changed_at, tenant_id);

CREATE TRIGGER directory_here BEFORE INSERT OR DELETE OR UPDATE ON placements FOR EACH STATEMENT EXECUTE FUNCTION refuse_copy();
ALTER TABLE placements DISABLE TRIGGER directory_here;
