-- The journal of 0001, which took changes one by one; 0002_journal.sql takes them table by table.
DROP FUNCTION apply_changes, apply_change, claim_idempotency, journal_record, add_edges, refuse_erased, erase_user,
    expire_records, put_vector, lock_threads;
DROP FUNCTION user_pk_for, purge_memory, locked_memory, update_memory, insert_memory;

-- relations_pair refuses what the unique constraint refused; one index less to ask for each relation
ALTER TABLE relations DROP CONSTRAINT relations_tenant_id_from_id_to_id_key;
CREATE INDEX relations_from ON relations (tenant_id, from_id);
ALTER FUNCTION search_lexical(bigint, text, text[], jsonb, int) ROWS 50;
