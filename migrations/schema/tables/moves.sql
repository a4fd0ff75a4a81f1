CREATE TABLE moves (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    source text NOT NULL,
    target text NOT NULL,
    step text NOT NULL,
    error text,
    details jsonb NOT NULL DEFAULT '{}'::jsonb,
    started_at timestamp with time zone NOT NULL DEFAULT now(),
    changed_at timestamp with time zone NOT NULL DEFAULT now(),
    ended_at timestamp with time zone,
    aborted_at timestamp with time zone,
    erasures_owed integer NOT NULL DEFAULT 0,
    CONSTRAINT moves_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT moves_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE
);

CREATE UNIQUE INDEX moves_one_unfinished ON moves USING btree (tenant_id) WHERE ended_at IS NULL;

CREATE TRIGGER directory_here BEFORE INSERT OR DELETE OR UPDATE ON moves FOR EACH STATEMENT EXECUTE FUNCTION refuse_copy();
ALTER TABLE moves DISABLE TRIGGER directory_here;
