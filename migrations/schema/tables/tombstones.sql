CREATE TABLE tombstones (
    tenant_id uuid NOT NULL,
    hash bytea NOT NULL,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT tombstones_pkey PRIMARY KEY (tenant_id, hash)
);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON tombstones FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE tombstones DISABLE TRIGGER at_home;
