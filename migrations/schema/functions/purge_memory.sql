CREATE OR REPLACE FUNCTION public.purge_memory(r memories)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    DELETE FROM relations WHERE tenant_id = r.tenant_id AND (from_id = r.id::text OR to_id = r.id::text);
    PERFORM blank_history(r.tenant_id, ARRAY[r.id::text]);
    UPDATE change_log SET meta = CASE WHEN meta ? 'replaces' THEN jsonb_build_object('replaces', meta->'replaces')
        ELSE '{}' END
        WHERE tenant_id = r.tenant_id AND memory_id = r.id::text;
    DELETE FROM memories WHERE tenant_id = r.tenant_id AND id = r.id;
END $function$;
COMMENT ON FUNCTION purge_memory(memories) IS 'Delete a memory with its relations, and blank its text in older history and in the change log.';
