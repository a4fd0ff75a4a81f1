CREATE OR REPLACE FUNCTION public.query_words(p_query text)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN ARRAY(SELECT ((''''::text || replace(replace(unnest.lexeme, '\'::text, '\\'::text), ''''::text, ''''''::text)) || ''''::text) FROM unnest(to_tsvector('english'::regconfig, searched_text(query_words.p_query))) unnest(lexeme, positions, weights) ORDER BY unnest.positions[1] LIMIT 64);
COMMENT ON FUNCTION query_words(text) IS 'Return the words of a query, stemmed, each quoted for a tsquery, in their order. At most 64 words count.';
