-- Everything 0001 made, back to an empty schema. Each embedding space brought a table and a function of its own.
DO $$
DECLARE
    v_space text;
BEGIN
    FOR v_space IN SELECT name FROM embedding_spaces LOOP
        EXECUTE format('DROP FUNCTION %I', 'neighbours_' || v_space);
        EXECUTE format('DROP TABLE %I', 'vec_' || v_space);
    END LOOP;
END $$;
DROP FUNCTION create_embedding_space, create_neighbours, apply_changes, apply_change, claim_idempotency, journal_record,
    add_edges, refuse_erased, erase_user, expire_records, put_vector, lock_threads, search_lexical, authenticate, list_tenants, any_word;
DROP FUNCTION user_pk_for, user_pk_of, purge_memory, locked_memory, update_memory, insert_memory, memory_matches;
DROP TABLE supervisor_checkpoints, tombstones, outbox, idempotency_keys, events, history, delta_cursors, change_log, thread_revision,
    relations, memory_access, embedding_spaces, memories, users, api_keys, tenants;
DROP FUNCTION refuse_silent_change, current_tenant;
ALTER DEFAULT PRIVILEGES FOR ROLE mnema_owner GRANT EXECUTE ON FUNCTIONS TO PUBLIC;
