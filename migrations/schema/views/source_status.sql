CREATE VIEW source_status WITH (security_invoker=true) AS
 SELECT s.tenant_id,
    s.id AS source_id,
        CASE
            WHEN s.removed_at IS NOT NULL THEN 'removing'::text
            WHEN j.state IS NOT NULL THEN 'indexing'::text
            WHEN l.state = 'failed'::text THEN 'failed'::text
            ELSE 'ready'::text
        END AS status,
    f.files,
    f.indexed,
    f.waiting,
    f.rejected,
    f.chunks,
    f.bytes,
    ( SELECT max(d.ended_at) AS max
           FROM index_jobs d
          WHERE d.tenant_id = s.tenant_id AND d.source_id = s.id AND d.state = 'done'::text) AS synced_at,
    l.error
   FROM sources s
     CROSS JOIN LATERAL ( SELECT count(*) AS files,
            count(*) FILTER (WHERE files.state = 'indexed'::text) AS indexed,
            count(*) FILTER (WHERE files.state = 'waiting'::text) AS waiting,
            count(*) FILTER (WHERE files.state = 'rejected'::text) AS rejected,
            COALESCE(sum(files.chunk_count), 0::bigint) AS chunks,
            COALESCE(sum(files.size) FILTER (WHERE files.state <> 'rejected'::text), 0::numeric)::bigint AS bytes
           FROM files
          WHERE files.tenant_id = s.tenant_id AND files.source_id = s.id) f
     LEFT JOIN LATERAL ( SELECT index_jobs.state
           FROM index_jobs
          WHERE index_jobs.tenant_id = s.tenant_id AND index_jobs.source_id = s.id AND (index_jobs.state = ANY (ARRAY['queued'::text, 'running'::text]))
         LIMIT 1) j ON true
     LEFT JOIN LATERAL ( SELECT index_jobs.state,
            index_jobs.error
           FROM index_jobs
          WHERE index_jobs.tenant_id = s.tenant_id AND index_jobs.source_id = s.id AND (index_jobs.state = ANY (ARRAY['done'::text, 'failed'::text]))
          ORDER BY index_jobs.ended_at DESC
         LIMIT 1) l ON true;
