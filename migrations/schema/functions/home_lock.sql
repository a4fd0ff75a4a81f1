CREATE OR REPLACE FUNCTION public.home_lock(p_tenant uuid)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN hashtextextended(('mnema.home:'::text || p_tenant), (0)::bigint);
COMMENT ON FUNCTION home_lock(uuid) IS 'Return the lock that a write holds in shared mode, and that the end of a residence takes alone.';
