CREATE OR REPLACE FUNCTION public.erase_items(p_tenant uuid, p_user text)
 RETURNS integer
 LANGUAGE sql
AS $function$
    WITH gone AS (DELETE FROM store_items WHERE tenant_id = p_tenant
        AND id = ANY (ARRAY (SELECT items_of(p_tenant, p_user)))
                  RETURNING 1)
    SELECT count(*)::int FROM gone
$function$;
COMMENT ON FUNCTION erase_items(uuid,text) IS 'Delete a user''s items and return how many. One that names several users goes with the first of them.';
