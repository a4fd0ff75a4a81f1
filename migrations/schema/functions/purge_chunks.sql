CREATE OR REPLACE FUNCTION public.purge_chunks(p_tenant uuid, p_ids uuid[], p_actor text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_ids text[];
BEGIN
    PERFORM 1 FROM memories WHERE tenant_id = p_tenant AND id = ANY (p_ids) AND type = 'chunk' ORDER BY id FOR UPDATE;
    v_ids := ARRAY (SELECT id::text FROM memories WHERE tenant_id = p_tenant AND id = ANY (p_ids) AND type = 'chunk'
        ORDER BY id);
    PERFORM blank_history(p_tenant, v_ids);
    INSERT INTO history (tenant_id, id, memory_id, event, actor)
        SELECT p_tenant, gen_random_uuid(), i, 'PURGE', p_actor FROM unnest(v_ids) i;
    DELETE FROM memories WHERE tenant_id = p_tenant AND id = ANY (v_ids::uuid[]);
END $function$;
COMMENT ON FUNCTION purge_chunks(uuid,uuid[],text) IS 'Delete chunks for good, with their text in history. Chunks have no relations and are in no thread''s delta, so that no
other memory of the user is concerned: unlike a purge of other memories, this needs no lock of the user alone.';
