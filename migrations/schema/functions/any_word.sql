CREATE OR REPLACE FUNCTION public.any_word(p_query text)
 RETURNS tsquery
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (NULLIF(array_to_string(query_words(p_query), ' | '::text), ''::text))::tsquery;
COMMENT ON FUNCTION any_word(text) IS 'Return a query for any of the words, stemmed; NULL if all of them are stop words.';
