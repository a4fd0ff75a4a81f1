CREATE OR REPLACE FUNCTION public.query_words(p_query text)
 RETURNS text[]
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
AS $function$
DECLARE
    v_stemmer regconfig := stemmer_of(query_language(p_query));
    v_text text := query_text(p_query);
    v_words tsvector := to_tsvector('english', searched_text(v_text));
    v_stems tsvector;
BEGIN
    IF v_stemmer IS NULL THEN
        RETURN ARRAY(SELECT quoted_lexeme(w.lexeme) FROM unnest(v_words) w ORDER BY w.positions[1] LIMIT 64);
    END IF;
    v_stems := folded_stems(to_tsvector(v_stemmer, stemmed_text(v_text))::text)::tsvector;
    RETURN ARRAY(
        SELECT quoted_lexeme(w.lexeme)
        FROM (SELECT e.lexeme, e.positions FROM unnest(v_words) e
              WHERE EXISTS (SELECT FROM unnest(v_stems) s WHERE s.positions && e.positions)
              UNION ALL SELECT s.lexeme, s.positions FROM unnest(v_stems) s) w
        GROUP BY w.lexeme ORDER BY min(w.positions[1]), w.lexeme LIMIT 64);
END $function$;
COMMENT ON FUNCTION query_words(text) IS 'Return the words of a query, each quoted for a tsquery, in their order: as English stems them, and in another
language that has a stemmer also as that one does, without the words that it leaves out. At most 64 count.';
