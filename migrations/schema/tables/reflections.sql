CREATE TABLE reflections (
    tenant_id uuid NOT NULL,
    user_id text NOT NULL,
    kind text NOT NULL,
    thread_id text NOT NULL,
    rev bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    tries smallint NOT NULL DEFAULT 0,
    CONSTRAINT reflections_pkey PRIMARY KEY (tenant_id, user_id, kind, thread_id),
    CONSTRAINT reflections_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES users(tenant_id, user_id) ON DELETE CASCADE,
    CONSTRAINT reflections_kind_check CHECK (kind = ANY (ARRAY['episode'::text, 'summary'::text, 'insight'::text, 'day'::text]))
);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON reflections FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE reflections DISABLE TRIGGER at_home;
