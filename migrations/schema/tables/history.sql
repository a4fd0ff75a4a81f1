CREATE TABLE history (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    memory_id text NOT NULL,
    event text NOT NULL,
    old_ref text,
    new_ref text,
    actor text,
    meta jsonb NOT NULL DEFAULT '{}'::jsonb,
    ts timestamp with time zone NOT NULL DEFAULT now(),
    stamp bigint NOT NULL DEFAULT transaction_stamp(),
    CONSTRAINT history_pkey PRIMARY KEY (tenant_id, memory_id, id),
    CONSTRAINT history_event_check CHECK (event = ANY (ARRAY['ADD'::text, 'UPDATE'::text, 'DELETE'::text, 'MERGE'::text, 'LINK'::text, 'TTL'::text, 'RESTORE'::text, 'PURGE'::text, 'CONSENT'::text]))
);

CREATE INDEX history_by_time ON history USING btree (tenant_id, memory_id, ts DESC, id DESC);
CREATE INDEX history_by_transaction ON history USING btree (tenant_id, stamp, id);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON history FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE history DISABLE TRIGGER at_home;
CREATE TRIGGER history_actor BEFORE UPDATE OF actor ON history FOR EACH ROW WHEN (new.actor IS NOT NULL AND new.actor IS DISTINCT FROM old.actor) EXECUTE FUNCTION refuse_other_actor();
