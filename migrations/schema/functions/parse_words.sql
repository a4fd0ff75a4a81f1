CREATE OR REPLACE FUNCTION public.parse_words(p_query text)
 RETURNS tsquery
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
AS $function$
DECLARE
    v_stemmer regconfig := stemmer_of(query_language(p_query));
    -- a word that a dash excludes may become several, so it is a phrase
    v_text text := regexp_replace(translate(query_text(p_query), '“”„«»', '"""""') COLLATE "C",
        '(^|\s)-([^\s"]*[^\x01-\x7f][^\s"]*)', '\1-"\2"', 'g');
    v_dash CONSTANT text := '-(?![^\s!#-/:-@[-`{-~])|(?<=[!-/:-@[-`{-~])-';
    v_words tsquery := websearch_to_tsquery('english', regexp_replace(searched_text(v_text), v_dash, ' ', 'g'));
    v_stems tsquery;
BEGIN
    IF v_stemmer IS NULL THEN RETURN v_words; END IF;
    v_stems := folded_stems(
        websearch_to_tsquery(v_stemmer, regexp_replace(stemmed_text(v_text), v_dash, ' ', 'g'))::text)::tsquery;
    RETURN CASE WHEN numnode(v_words) = 0 OR strpos(v_stems::text, '!') > 0 THEN v_stems
                WHEN numnode(v_stems) = 0 THEN v_words ELSE v_words || v_stems END;
END $function$;
COMMENT ON FUNCTION parse_words(text) IS 'Return a search for all words of a query, "phrases", or, -without. A dash excludes what follows it only behind a
blank and before a word or a phrase. PostgreSQL takes each other dash for an operator too, and fails on 32 in a row.
In a language that has a stemmer, a text matches by its stems or by its words as they are. If a word is excluded, it
matches by its stems.';
