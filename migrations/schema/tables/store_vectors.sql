CREATE TABLE store_vectors (
    tenant_id uuid NOT NULL,
    item_id uuid NOT NULL,
    space text NOT NULL,
    part smallint NOT NULL,
    embedding halfvec NOT NULL,
    CONSTRAINT store_vectors_pkey PRIMARY KEY (tenant_id, item_id, space, part),
    CONSTRAINT store_vectors_tenant_id_item_id_fkey FOREIGN KEY (tenant_id, item_id) REFERENCES store_items(tenant_id, id) ON DELETE CASCADE
);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON store_vectors FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE store_vectors DISABLE TRIGGER at_home;
