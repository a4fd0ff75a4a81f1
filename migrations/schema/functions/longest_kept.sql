CREATE OR REPLACE FUNCTION public.longest_kept(p_events integer, p_receipts integer)
 RETURNS TABLE(events integer, receipts integer)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT greatest(p_events, max((n.lifecycle->'events_days')::int)),
        greatest(p_receipts, max((n.lifecycle->'receipts_days')::int))
    FROM (SELECT DISTINCT ON (tenant_id) document->'lifecycle' AS lifecycle FROM tenant_configs
          ORDER BY tenant_id, version DESC) n;
$function$;
COMMENT ON FUNCTION longest_kept(integer,integer) IS 'Return the longest time, in days, that a tenant keeps events and receipts: the greatest of the given defaults and of
the newest rules of every tenant.';
