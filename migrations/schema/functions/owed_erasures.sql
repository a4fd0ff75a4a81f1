CREATE OR REPLACE FUNCTION public.owed_erasures()
 RETURNS TABLE(tenant_id uuid, cluster text, erasures integer)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT m.tenant_id, m.source, max(m.erasures_owed)
    FROM moves m JOIN placements p ON p.tenant_id = m.tenant_id AND p.cluster <> m.source
    WHERE m.erasures_owed > 0 AND m.step = 'done' AND NOT EXISTS (
        SELECT FROM moves l WHERE l.tenant_id = m.tenant_id AND l.step = 'done'
            AND l.ended_at >= clock_timestamp() - interval '2 minutes')
    GROUP BY m.tenant_id, m.source ORDER BY 1, 2;
$function$;
COMMENT ON FUNCTION owed_erasures() IS 'Return the former homes of all tenants whose copies still have what was erased, with the number of erasures. A tenant
that has just moved is left out for two minutes: requests from before may still read its copies.';
