CREATE OR REPLACE FUNCTION public.list_placements(p_since timestamp with time zone)
 RETURNS TABLE(tenant_id uuid, cluster text, epoch bigint, region text, changed_at timestamp with time zone)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT p.tenant_id, p.cluster, p.epoch, p.region, p.changed_at FROM placements p
    WHERE p.changed_at >= coalesce(p_since, '-infinity');
$function$;
COMMENT ON FUNCTION list_placements(timestamp with time zone) IS 'Return the placements that changed from a time on, of all tenants; null: all of them. The clock is the directory''s.';
