CREATE OR REPLACE FUNCTION public.erase_consent(p_tenant uuid, p_user text, p_actor text)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_ids text[];
    v_values int;
BEGIN
    PERFORM 1 FROM context_patches WHERE tenant_id = p_tenant AND user_id = p_user ORDER BY id FOR UPDATE;
    v_ids := ARRAY (SELECT id::text FROM context_patches WHERE tenant_id = p_tenant AND user_id = p_user);
    PERFORM blank_history(p_tenant, v_ids);
    INSERT INTO history (tenant_id, id, memory_id, event, actor)
        SELECT p_tenant, gen_random_uuid(), i, 'PURGE', p_actor FROM unnest(v_ids) i;
    DELETE FROM idempotency_keys WHERE tenant_id = p_tenant AND response->>'id' = ANY (v_ids);
    DELETE FROM user_context WHERE tenant_id = p_tenant AND user_id = p_user;
    GET DIAGNOSTICS v_values = ROW_COUNT;
    DELETE FROM context_patches WHERE tenant_id = p_tenant AND user_id = p_user;
    RETURN jsonb_build_object('context_values', v_values, 'context_patches', cardinality(v_ids));
END $function$;
COMMENT ON FUNCTION erase_consent(uuid,text,text) IS 'Delete a user''s context and proposals; their history rows stay, without text. The caller holds the lock of the user''s
row. The proposals are locked first, so that history that is being written about one is blanked too.';
