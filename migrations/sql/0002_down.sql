-- Back to the journal of 0001, whose scripts are run again after this. Jobs are lost.
DO $$
DECLARE
    v_space text;
BEGIN
    FOR v_space IN SELECT name FROM embedding_spaces LOOP
        EXECUTE format('DROP FUNCTION %I, %I, %I, %I', 'apply_changes_' || v_space, 'record_changes_' || v_space,
                       'put_vectors_' || v_space, 'fill_vectors_' || v_space);
    END LOOP;
END $$;
DROP FUNCTION add_embedding_space, create_put_vectors, create_journal, claim_keys, change_memories, add_edges,
    refuse_erased, erase_user, expire_records, know_users, claim_jobs, jobs_behind, start_job;
DROP FUNCTION purge_memory, locked_memory, update_memory, memory_json;
ALTER TABLE memories DROP COLUMN stored_at;
DROP TABLE jobs, job_pauses, consolidation_pairs;
REVOKE USAGE ON SCHEMA public FROM mnema_jobs;
REVOKE UPDATE (created_at) ON memories FROM mnema_app;
DROP INDEX relations_from;
ALTER TABLE relations ADD UNIQUE (tenant_id, from_id, to_id);
ALTER FUNCTION search_lexical(bigint, text, text[], jsonb, int) ROWS 1000;
CREATE TABLE outbox (
    tenant_id     uuid NOT NULL,
    id            uuid NOT NULL,
    kind          text NOT NULL,
    payload       jsonb NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    published_at  timestamptz,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX outbox_unpublished ON outbox (created_at) WHERE published_at IS NULL;
ALTER TABLE outbox ENABLE ROW LEVEL SECURITY;
ALTER TABLE outbox FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON outbox
    USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox TO mnema_app;
