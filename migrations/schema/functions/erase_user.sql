CREATE OR REPLACE FUNCTION public.erase_user(p_tenant uuid, p_user text, p_hashes bytea[], p_actor text)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_memories text[] := ARRAY (SELECT id::text FROM memories WHERE tenant_id = p_tenant AND user_pk = user_pk_of(p_tenant, p_user));
    v_facts text[] := ARRAY (SELECT id::text FROM facts WHERE tenant_id = p_tenant AND user_id = p_user);
    v_ids text[] := v_memories || v_facts;
    v_done jsonb := jsonb_build_object('memories', cardinality(v_memories), 'facts', cardinality(v_facts));
    v_count int;
BEGIN
    INSERT INTO tombstones (tenant_id, hash) SELECT p_tenant, h FROM unnest(p_hashes) h ON CONFLICT DO NOTHING;
    UPDATE history SET meta = '{}' WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids);
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('history_blanked', v_count);
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
    DELETE FROM jobs WHERE tenant_id = p_tenant AND user_id = p_user;
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('jobs', v_count);
    DELETE FROM supervisor_checkpoints WHERE tenant_id = p_tenant AND user_id = p_user;
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('checkpoints', v_count);
    DELETE FROM memories WHERE tenant_id = p_tenant AND user_pk = user_pk_of(p_tenant, p_user);
    DELETE FROM facts WHERE tenant_id = p_tenant AND user_id = p_user;
    DELETE FROM users WHERE tenant_id = p_tenant AND user_id = p_user;
    RETURN v_done;
END $function$;
