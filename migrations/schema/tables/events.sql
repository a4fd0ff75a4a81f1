CREATE TABLE events (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    user_id text,
    thread_id text,
    node text NOT NULL,
    op text NOT NULL,
    status text NOT NULL,
    memory_id text,
    category text,
    sim real,
    ts timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT events_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT events_node_check CHECK (node = ANY (ARRAY['hotpath'::text, 'context'::text, 'episodic'::text, 'worker'::text])),
    CONSTRAINT events_status_check CHECK (status = ANY (ARRAY['ok'::text, 'error'::text, 'skipped'::text]))
) PARTITION BY RANGE (id);

CREATE INDEX events_by_age ON ONLY events USING btree (tenant_id, ts);
CREATE INDEX events_by_node ON ONLY events USING btree (tenant_id, node, ts DESC);
CREATE INDEX events_by_user ON ONLY events USING btree (tenant_id, user_id, ts DESC);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON events FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE events DISABLE TRIGGER at_home;
