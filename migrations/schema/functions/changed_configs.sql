CREATE OR REPLACE FUNCTION public.changed_configs(p_since xid8)
 RETURNS TABLE(settled xid8, tenant_id uuid, version integer, document text)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT s.settled, c.tenant_id, c.version, c.document::text
    FROM (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS settled) s
    LEFT JOIN LATERAL (
        SELECT DISTINCT ON (t.tenant_id) t.tenant_id, t.version, t.document FROM tenant_configs t
        WHERE t.xid >= p_since ORDER BY t.tenant_id, t.version DESC) c ON true;
$function$;
