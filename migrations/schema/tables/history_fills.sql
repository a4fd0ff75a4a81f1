CREATE TABLE history_fills (
    tenant_id uuid NOT NULL,
    space text NOT NULL,
    began timestamp with time zone NOT NULL DEFAULT now(),
    after_id uuid,
    CONSTRAINT history_fills_pkey PRIMARY KEY (tenant_id, space),
    CONSTRAINT history_fills_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE
);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON history_fills FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE history_fills DISABLE TRIGGER at_home;
