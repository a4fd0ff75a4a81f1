-- What is paused and for how many tenants: work that waits by somebody's wish is told from work that waits for a worker.
CREATE FUNCTION paused_jobs() RETURNS TABLE (kind text, tenants bigint) LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT p.kind, count(*) FROM job_pauses p GROUP BY p.kind ORDER BY p.kind;
$$;
GRANT EXECUTE ON FUNCTION paused_jobs() TO mnema_app;
GRANT CREATE ON SCHEMA public TO mnema_jobs;
ALTER FUNCTION paused_jobs() OWNER TO mnema_jobs;
REVOKE CREATE ON SCHEMA public FROM mnema_jobs;
