CREATE OR REPLACE FUNCTION public.delete_lineages(p_tenant uuid, p_user text, p_threads text[])
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_count bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    DELETE FROM supervisor_checkpoints s
        WHERE s.tenant_id = p_tenant AND s.user_id = p_user AND s.thread_id = ANY (p_threads) AND s.kind = 'lineage';
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $function$;
COMMENT ON FUNCTION delete_lineages(uuid,text,text[]) IS 'Delete those of the threads that a saver keeps, and return how many.';
