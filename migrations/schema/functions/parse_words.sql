CREATE OR REPLACE FUNCTION public.parse_words(p_query text)
 RETURNS tsquery
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN websearch_to_tsquery('english'::regconfig, regexp_replace(p_query, '-(?![^\s!#-/:-@[-`{-~])|(?<=[!-/:-@[-`{-~])-'::text, ' '::text, 'g'::text));
