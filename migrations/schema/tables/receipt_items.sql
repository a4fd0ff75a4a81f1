CREATE TABLE receipt_items (
    tenant_id uuid NOT NULL,
    receipt_id uuid NOT NULL,
    place smallint NOT NULL,
    part text NOT NULL,
    memory_id uuid NOT NULL,
    category text NOT NULL,
    version integer,
    relevance real,
    bullet jsonb,
    CONSTRAINT receipt_items_pkey PRIMARY KEY (tenant_id, receipt_id, place),
    CONSTRAINT receipt_items_part_check CHECK (part = ANY (ARRAY['header'::text, 'fact'::text, 'item'::text, 'related'::text]))
) PARTITION BY RANGE (receipt_id);

CREATE INDEX receipt_items_by_memory ON ONLY receipt_items USING btree (tenant_id, memory_id, receipt_id DESC, place);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON receipt_items FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE receipt_items DISABLE TRIGGER at_home;
