CREATE OR REPLACE FUNCTION public.text_words(p_text text, p_language text)
 RETURNS tsvector
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
AS $function$
DECLARE
    v_words tsvector := to_tsvector('english', searched_text(p_text));
    v_stemmer regconfig := stemmer_of(p_language);
BEGIN
    IF v_stemmer IS NULL THEN RETURN v_words; END IF;
    RETURN (v_words::text || ' ' || folded_stems(to_tsvector(v_stemmer, stemmed_text(p_text))::text))::tsvector;
END $function$;
COMMENT ON FUNCTION text_words(text,text) IS 'Return the words by which a text is found: as English stems them, and if its language has another stemmer, also as
that one does, at the same places. So a text is found by its words as they are, whatever a query''s language is taken
for.';
