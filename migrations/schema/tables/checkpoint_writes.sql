CREATE TABLE checkpoint_writes (
    tenant_id uuid NOT NULL,
    thread_pk uuid NOT NULL,
    ns text COLLATE "C" NOT NULL,
    checkpoint_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    idx integer NOT NULL,
    task_path text COLLATE "C" NOT NULL,
    channel text COLLATE "C" NOT NULL,
    type text NOT NULL,
    data bytea STORAGE EXTERNAL NOT NULL,
    CONSTRAINT checkpoint_writes_pkey PRIMARY KEY (tenant_id, thread_pk, ns, checkpoint_id, task_id, idx),
    CONSTRAINT checkpoint_writes_tenant_id_thread_pk_fkey FOREIGN KEY (tenant_id, thread_pk) REFERENCES supervisor_checkpoints(tenant_id, id) ON DELETE CASCADE
);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON checkpoint_writes FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE checkpoint_writes DISABLE TRIGGER at_home;
