CREATE TABLE checkpoint_lineage (
    tenant_id uuid NOT NULL,
    thread_pk uuid NOT NULL,
    ns text COLLATE "C" NOT NULL,
    checkpoint_id text COLLATE "C" NOT NULL,
    parent_id text COLLATE "C",
    type text NOT NULL,
    data bytea NOT NULL,
    metadata jsonb NOT NULL,
    versions jsonb NOT NULL,
    run_id text GENERATED ALWAYS AS (metadata ->> 'run_id'::text) STORED,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT checkpoint_lineage_pkey PRIMARY KEY (tenant_id, thread_pk, ns, checkpoint_id),
    CONSTRAINT checkpoint_lineage_tenant_id_thread_pk_fkey FOREIGN KEY (tenant_id, thread_pk) REFERENCES supervisor_checkpoints(tenant_id, id) ON DELETE CASCADE
);

CREATE INDEX checkpoint_lineage_newest ON checkpoint_lineage USING btree (tenant_id, checkpoint_id);
CREATE INDEX checkpoint_lineage_run ON checkpoint_lineage USING btree (tenant_id, run_id) WHERE run_id IS NOT NULL;

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON checkpoint_lineage FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE checkpoint_lineage DISABLE TRIGGER at_home;
