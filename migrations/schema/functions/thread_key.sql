CREATE OR REPLACE FUNCTION public.thread_key(p_thread text)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
RETURN hashtextextended(p_thread, (0)::bigint);
COMMENT ON FUNCTION thread_key(text) IS 'Return the key of a thread in the table of a space; NULL for no thread.';
