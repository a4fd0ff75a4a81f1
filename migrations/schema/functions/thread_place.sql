CREATE OR REPLACE FUNCTION public.thread_place(p_thread text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN (p_thread IS NULL) THEN ''::text ELSE p_thread END;
COMMENT ON FUNCTION thread_place(text) IS 'Return the key of a thread; facts without a thread are together. Rows are found by its equality, because no index
finds IS NOT DISTINCT FROM. It is CASE and not coalesce, which row-level security keeps out of an index''s conditions.';
