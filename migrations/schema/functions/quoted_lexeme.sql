CREATE OR REPLACE FUNCTION public.quoted_lexeme(p_lexeme text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN ((''''::text || replace(replace(p_lexeme, '\'::text, '\\'::text), ''''::text, ''''''::text)) || ''''::text);
COMMENT ON FUNCTION quoted_lexeme(text) IS 'Return a lexeme quoted for a tsquery.';
