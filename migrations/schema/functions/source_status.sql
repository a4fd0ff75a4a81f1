CREATE OR REPLACE FUNCTION public.source_status(s sources)
 RETURNS TABLE(status text, files bigint, indexed bigint, waiting bigint, rejected bigint, chunks bigint, bytes bigint, synced_at timestamp with time zone, error text)
 LANGUAGE sql
 STABLE
AS $function$
    SELECT CASE WHEN s.removed_at IS NOT NULL THEN 'removing' WHEN j.state IS NOT NULL THEN 'indexing'
                WHEN l.state = 'failed' THEN 'failed' ELSE 'ready' END,
           f.files, f.indexed, f.waiting, f.rejected, f.chunks, f.bytes,
           (SELECT max(ended_at) FROM index_jobs WHERE tenant_id = s.tenant_id AND source_id = s.id AND state = 'done'), l.error
    FROM (SELECT count(*) AS files, count(*) FILTER (WHERE state = 'indexed') AS indexed,
                 count(*) FILTER (WHERE state = 'waiting') AS waiting,
                 count(*) FILTER (WHERE state = 'rejected') AS rejected, coalesce(sum(chunk_count), 0)::bigint AS chunks,
                 coalesce(sum(size) FILTER (WHERE state <> 'rejected'), 0)::bigint AS bytes
          FROM files WHERE tenant_id = s.tenant_id AND source_id = s.id) f
    LEFT JOIN LATERAL (SELECT state FROM index_jobs WHERE tenant_id = s.tenant_id AND source_id = s.id
        AND state IN ('queued', 'running') LIMIT 1) j ON true
    LEFT JOIN LATERAL (SELECT state, error FROM index_jobs WHERE tenant_id = s.tenant_id AND source_id = s.id
        AND state IN ('done', 'failed') ORDER BY ended_at DESC LIMIT 1) l ON true
$function$;
