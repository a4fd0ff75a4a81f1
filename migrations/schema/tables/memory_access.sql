CREATE TABLE memory_access (
    tenant_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    last_accessed timestamp with time zone NOT NULL,
    hits bigint NOT NULL DEFAULT 1,
    CONSTRAINT memory_access_pkey PRIMARY KEY (tenant_id, memory_id),
    CONSTRAINT memory_access_tenant_id_memory_id_fkey FOREIGN KEY (tenant_id, memory_id) REFERENCES memories(tenant_id, id) ON DELETE CASCADE
) WITH (fillfactor=70);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON memory_access FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE memory_access DISABLE TRIGGER at_home;
