CREATE OR REPLACE FUNCTION public.memory_at(m memories, p_as_of timestamp with time zone)
 RETURNS SETOF memories
 LANGUAGE sql
 STABLE ROWS 1
AS $function$
    SELECT m.* WHERE NOT EXISTS (SELECT FROM history h WHERE h.tenant_id = m.tenant_id AND h.memory_id = m.id::text
                                 AND h.ts > p_as_of AND h.meta ? 'after')
    UNION ALL
    SELECT w.* FROM (
        SELECT h.meta->'after' AS image FROM history h WHERE h.tenant_id = m.tenant_id AND h.memory_id = m.id::text
            AND h.ts <= p_as_of AND h.meta ? 'after' ORDER BY h.ts DESC, h.id DESC LIMIT 1) l
    CROSS JOIN LATERAL former_memory(m, l.image) w
    WHERE EXISTS (SELECT FROM history h WHERE h.tenant_id = m.tenant_id AND h.memory_id = m.id::text
                  AND h.ts > p_as_of AND h.meta ? 'after')
$function$;
COMMENT ON FUNCTION memory_at(memories,timestamp with time zone) IS 'Return a memory as it was at a time: as it is, if nothing changed it since, else by its last image before. No row if
it was not stored yet. History has no images of what was purged or erased.';
