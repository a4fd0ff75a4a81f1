-- Back to the journal of 0002, whose script is run again after this.
DO $$
DECLARE
    v_space text;
BEGIN
    FOR v_space IN SELECT name FROM embedding_spaces LOOP
        EXECUTE format('DROP FUNCTION %I, %I', 'apply_changes_' || v_space, 'record_changes_' || v_space);
    END LOOP;
END $$;
DROP FUNCTION create_journal, claim_keys, change_memories, add_edges, erase_user, expire_records, know_users;
DROP FUNCTION purge_memory, locked_memory, update_memory, memory_json;
