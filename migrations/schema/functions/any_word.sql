CREATE OR REPLACE FUNCTION public.any_word(p_query text)
 RETURNS tsquery
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (SELECT (string_agg(((''''::text || replace(replace(w.lexeme, '\'::text, '\\'::text), ''''::text, ''''''::text)) || ''''::text), ' | '::text))::tsquery AS string_agg FROM (SELECT unnest.lexeme FROM unnest(to_tsvector('english'::regconfig, any_word.p_query)) unnest(lexeme, positions, weights) ORDER BY unnest.positions[1] LIMIT 64) w);
