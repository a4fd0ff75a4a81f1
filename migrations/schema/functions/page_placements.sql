CREATE OR REPLACE FUNCTION public.page_placements(p_since timestamp with time zone, p_after uuid, p_limit integer)
 RETURNS TABLE(tenant_id uuid, cluster text, changed_at timestamp with time zone)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT p.tenant_id, p.cluster, p.changed_at FROM placements p
    WHERE (p.changed_at, p.tenant_id) > (p_since, p_after) ORDER BY p.changed_at, p.tenant_id LIMIT p_limit;
$function$;
COMMENT ON FUNCTION page_placements(timestamp with time zone,uuid,integer) IS 'Return the placements that changed after a position, of all tenants, in the order of time and tenant, at most
`p_limit`. The clock is the directory''s.';
