CREATE OR REPLACE FUNCTION public.query_text(p_query text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN (strpos(p_query, '\x1f'::text) = ANY (ARRAY[3, 4])) THEN substr(p_query, (strpos(p_query, '\x1f'::text) + 1)) ELSE p_query END;
COMMENT ON FUNCTION query_text(text) IS 'Return the text of a query, without its language.';
