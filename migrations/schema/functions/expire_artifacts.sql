CREATE OR REPLACE FUNCTION public.expire_artifacts(p_tenant uuid, p_before timestamp with time zone, p_limit integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_count int;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    DELETE FROM conv_messages WHERE tenant_id = p_tenant AND id = ANY (ARRAY (
        SELECT id FROM conv_messages
        WHERE tenant_id = p_tenant AND made_at < p_before AND (turn_id IS NOT NULL OR updated_at < p_before)
        ORDER BY made_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $function$;
COMMENT ON FUNCTION expire_artifacts(uuid,timestamp with time zone,integer) IS 'Delete at most p_limit artifacts made before p_before, the oldest first. What belongs to a whole conversation must
also be unchanged since then. A sweep deletes the blobs later. Returns the number.';
