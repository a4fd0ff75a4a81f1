CREATE OR REPLACE FUNCTION public.thread_key(p_thread text)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
RETURN hashtextextended(p_thread, (0)::bigint);
