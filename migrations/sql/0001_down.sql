-- Everything 0001 made, back to an empty schema. Each embedding space brought a table and a function of its own.
DO $$
DECLARE
    v_space text;
BEGIN
    FOR v_space IN SELECT name FROM embedding_spaces LOOP
        EXECUTE format('DROP FUNCTION %I, %I, %I, %I', 'neighbours_' || v_space, 'apply_changes_' || v_space,
                       'record_changes_' || v_space, 'put_vectors_' || v_space);
        EXECUTE format('DROP TABLE %I', 'vec_' || v_space);
    END LOOP;
END $$;
DROP FUNCTION create_embedding_space, create_neighbours, create_put_vectors, create_journal, claim_keys, change_memories,
    add_edges, refuse_erased, erase_user, expire_records, know_users, search_lexical, authenticate, list_tenants, any_word;
DROP FUNCTION user_pk_of, purge_memory, locked_memory, update_memory, memory_json, memory_matches;
DROP TABLE supervisor_checkpoints, tombstones, outbox, idempotency_keys, events, history, delta_cursors, change_log, thread_revision,
    relations, memory_access, embedding_spaces, memories, users, api_keys, tenants;
DROP FUNCTION refuse_silent_change, current_tenant;
ALTER DEFAULT PRIVILEGES FOR ROLE mnema_owner GRANT EXECUTE ON FUNCTIONS TO PUBLIC;
