CREATE TABLE receipts (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    ts timestamp with time zone NOT NULL,
    via text NOT NULL,
    agent text,
    key_id uuid,
    user_id text,
    thread_id text,
    header_from bigint,
    header_to bigint,
    tokens integer,
    relevance real,
    degraded text,
    as_of timestamp with time zone,
    valid_at timestamp with time zone,
    CONSTRAINT receipts_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT receipts_via_check CHECK (via = ANY (ARRAY['query'::text, 'mcp'::text, 'chat'::text]))
) PARTITION BY RANGE (id);

CREATE INDEX receipts_by_thread ON ONLY receipts USING btree (tenant_id, thread_id, ts DESC, id DESC) WHERE thread_id IS NOT NULL;
CREATE INDEX receipts_by_time ON ONLY receipts USING btree (tenant_id, ts DESC, id DESC);
CREATE INDEX receipts_by_user ON ONLY receipts USING btree (tenant_id, user_id, ts DESC, id DESC) WHERE user_id IS NOT NULL;

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON receipts FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE receipts DISABLE TRIGGER at_home;
