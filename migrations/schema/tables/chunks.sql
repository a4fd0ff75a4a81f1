CREATE TABLE chunks (
    tenant_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    file_id uuid,
    turn_id uuid,
    ordinal integer NOT NULL,
    start_at integer NOT NULL,
    end_at integer NOT NULL,
    page integer,
    heading text[] NOT NULL,
    gap text NOT NULL DEFAULT ''::text,
    CONSTRAINT chunks_pkey PRIMARY KEY (tenant_id, memory_id),
    CONSTRAINT chunks_of_file UNIQUE (tenant_id, file_id, ordinal) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT chunks_of_turn UNIQUE (tenant_id, turn_id, ordinal) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT chunks_tenant_id_file_id_fkey FOREIGN KEY (tenant_id, file_id) REFERENCES files(tenant_id, id),
    CONSTRAINT chunks_tenant_id_memory_id_fkey FOREIGN KEY (tenant_id, memory_id) REFERENCES memories(tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT chunks_tenant_id_turn_id_fkey FOREIGN KEY (tenant_id, turn_id) REFERENCES memories(tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT chunks_check CHECK ((file_id IS NULL) <> (turn_id IS NULL)),
    CONSTRAINT chunks_check1 CHECK (ordinal >= 0 AND 0 <= start_at AND start_at < end_at AND page >= 1)
);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON chunks FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE chunks DISABLE TRIGGER at_home;
