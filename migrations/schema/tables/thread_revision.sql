CREATE TABLE thread_revision (
    tenant_id uuid NOT NULL,
    thread_id text NOT NULL,
    rev bigint NOT NULL,
    pruned jsonb NOT NULL DEFAULT '{}'::jsonb,
    erased jsonb NOT NULL DEFAULT '{}'::jsonb,
    CONSTRAINT thread_revision_pkey PRIMARY KEY (tenant_id, thread_id)
) WITH (fillfactor=50);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON thread_revision FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE thread_revision DISABLE TRIGGER at_home;
