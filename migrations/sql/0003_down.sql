-- Back to the journal and the spaces of 0002, whose scripts are run again after this. Tokens are lost.
DO $$
DECLARE
    v_space text;
BEGIN
    FOR v_space IN SELECT name FROM embedding_spaces LOOP
        EXECUTE format('DROP FUNCTION %I, %I, %I, %I', 'apply_changes_' || v_space, 'record_changes_' || v_space,
                       'put_vectors_' || v_space, 'fill_vectors_' || v_space);
        EXECUTE format('ALTER TABLE %I DROP COLUMN tokens', 'vec_' || v_space);
    END LOOP;
END $$;
DROP FUNCTION create_journal, create_put_vectors, add_embedding_space, add_tokens, claim_keys, change_memories, add_edges,
    erase_user, expire_records, know_users;
DROP FUNCTION purge_memory, locked_memory, update_memory, memory_json;
