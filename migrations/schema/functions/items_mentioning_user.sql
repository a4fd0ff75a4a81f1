CREATE OR REPLACE FUNCTION public.items_mentioning_user(p_user text)
 RETURNS SETOF uuid
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT i.id FROM store_items i WHERE i.tenant_id = current_tenant() AND i.user_id IS NULL
        AND (store_names(i.tenant_id, i.path, i.key) @> ARRAY[current_tenant()::text || p_user]
             OR store_words(current_tenant(), p_user) <> '{}'
                AND store_names(i.tenant_id, i.path, i.key) @> store_words(current_tenant(), p_user));
$function$;
COMMENT ON FUNCTION items_mentioning_user(text) IS 'Return the items without user_id that may name a user: all that do, and some more. `@>` of arrays is not leakproof,
so row-level security keeps a query from the index; this function reaches it (security.sql). The tenant comes from
the transaction, never from a parameter.';
