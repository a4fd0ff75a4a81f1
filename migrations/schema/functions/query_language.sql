CREATE OR REPLACE FUNCTION public.query_language(p_query text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN (strpos(p_query, '\x1f'::text) = ANY (ARRAY[3, 4])) THEN split_part(p_query, '\x1f'::text, 1) ELSE NULL::text END;
COMMENT ON FUNCTION query_language(text) IS E'Return the language of a query: its code before a unit separator, as in `de\\u001fKatzen`. NULL if it names none.';
