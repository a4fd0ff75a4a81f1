CREATE OR REPLACE FUNCTION public.is_moved_now(p_tenant uuid)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT EXISTS (
        SELECT FROM hashtextextended('mnema.move:' || p_tenant, 0) key, pg_locks l
        JOIN pg_database d ON d.oid = l.database
        WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.objsubid = 1
          AND l.classid::bigint = (key >> 32) & 4294967295 AND l.objid::bigint = key & 4294967295);
$function$;
COMMENT ON FUNCTION is_moved_now(uuid) IS 'Return true if a process holds the lock of the tenant''s move.';
