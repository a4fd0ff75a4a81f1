CREATE OR REPLACE FUNCTION public.erase_user(p_tenant uuid, p_user text, p_hashes bytea[], p_actor text)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_pk bigint := user_pk_of(p_tenant, p_user);
    v_memories text[] := ARRAY (SELECT id::text FROM memories WHERE tenant_id = p_tenant AND user_pk = v_pk);
    v_facts text[] := ARRAY (SELECT id::text FROM facts WHERE tenant_id = p_tenant AND user_id = p_user);
    v_ids text[] := v_memories || v_facts;
    v_done jsonb := jsonb_build_object('memories', cardinality(v_memories), 'facts', cardinality(v_facts));
    v_count int;
BEGIN
    PERFORM keep_epoch();
    INSERT INTO tombstones AS t (tenant_id, hash, created_at) SELECT p_tenant, h, clock_timestamp()
        FROM unnest(p_hashes) h
        ON CONFLICT (tenant_id, hash) DO UPDATE SET created_at = excluded.created_at;
    v_done := v_done || jsonb_build_object('history_blanked', blank_history(p_tenant, v_ids));
    INSERT INTO history (tenant_id, id, memory_id, event, actor)
        SELECT p_tenant, gen_random_uuid(), i, 'PURGE', p_actor FROM unnest(v_ids) i;
    UPDATE change_log SET meta = '{}' WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids);
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('changes_blanked', v_count);
    DELETE FROM relations WHERE tenant_id = p_tenant AND (from_id = ANY (v_ids) OR to_id = ANY (v_ids));
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('relations', v_count);
    DELETE FROM events WHERE tenant_id = p_tenant AND (user_id = p_user OR memory_id = ANY (v_ids));
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('events', v_count);
    DELETE FROM idempotency_keys WHERE tenant_id = p_tenant
        AND (user_id = p_user OR user_id IS NULL AND response->>'id' = ANY (v_ids));
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('idempotency_keys', v_count);
    -- The answer of a batch over several users stays for a retry, without the ids of this user's memories.
    UPDATE idempotency_keys SET response = response || jsonb_build_object(
            'sample', (response->'sample') - v_ids,
            'left', (SELECT coalesce(jsonb_agg(l ORDER BY place), '[]')
                     FROM jsonb_array_elements(response->'left') WITH ORDINALITY e(l, place)
                     WHERE l->>0 <> ALL (v_ids)))
        WHERE tenant_id = p_tenant AND user_id IS NULL AND response ? 'batch_id'
          AND (response->'sample' ?| v_ids
               OR EXISTS (SELECT FROM jsonb_array_elements(response->'left') l WHERE l->>0 = ANY (v_ids)));
    DELETE FROM memory_batches WHERE tenant_id = p_tenant AND user_id = p_user;
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('memory_batches', v_count);
    -- A batch over several users stays for the others, without words that may be about this one.
    UPDATE memory_batches SET filters = withhold(filters, '{actor_id,agent_id,run_id,tag}'),
                              changes = withhold(changes, '{add_tags,remove_tags,metadata}')
        WHERE tenant_id = p_tenant AND user_pks @> ARRAY[v_pk];
    UPDATE memory_batches SET filters = withhold(filters, '{actor_id}')
        WHERE tenant_id = p_tenant AND filters->>'actor_id' = p_user;
    DELETE FROM memories WHERE tenant_id = p_tenant AND user_pk = v_pk;
    DELETE FROM facts WHERE tenant_id = p_tenant AND user_id = p_user;
    DELETE FROM users WHERE tenant_id = p_tenant AND user_id = p_user;
    RETURN v_done;
END $function$;
COMMENT ON FUNCTION erase_user(uuid,text,bytea[],text) IS 'Delete what a user''s row and memories hang together with; rows of history and change_log stay, without text. The
caller holds the lock of the user''s row, so that nothing is written for the user meanwhile. Returns the numbers of
rows by table.';
