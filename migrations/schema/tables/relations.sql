CREATE TABLE relations (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    from_id text NOT NULL,
    to_id text NOT NULL,
    relation_type text DEFAULT 'related_to'::text,
    strength real NOT NULL,
    created_at timestamp with time zone DEFAULT now(),
    CONSTRAINT relations_pkey PRIMARY KEY (tenant_id, id)
);

CREATE INDEX relations_from ON relations USING btree (tenant_id, from_id);
CREATE INDEX relations_to ON relations USING btree (tenant_id, to_id);
CREATE UNIQUE INDEX relations_pair ON relations USING btree (tenant_id, LEAST(from_id, to_id), GREATEST(from_id, to_id));

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON relations FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE relations DISABLE TRIGGER at_home;
