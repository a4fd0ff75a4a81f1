CREATE TABLE memory_counts (
    tenant_id uuid NOT NULL,
    category text NOT NULL,
    agent_key bigint NOT NULL,
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    memories bigint NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT memory_counts_pkey PRIMARY KEY (tenant_id, category, agent_key, id)
);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON memory_counts FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE memory_counts DISABLE TRIGGER at_home;
