CREATE OR REPLACE FUNCTION public.parse_words(p_query text)
 RETURNS tsquery
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN websearch_to_tsquery('english'::regconfig, regexp_replace(searched_text(regexp_replace((translate(p_query, '“”„«»'::text, '"""""'::text) COLLATE "C"), '(^|\s)-([^\s"]*[^\x01-\x7f][^\s"]*)'::text, '\1-"\2"'::text, 'g'::text)), '-(?![^\s!#-/:-@[-`{-~])|(?<=[!-/:-@[-`{-~])-'::text, ' '::text, 'g'::text));
COMMENT ON FUNCTION parse_words(text) IS 'Return a search for all words of a query, "phrases", or, -without. A dash excludes what follows it only behind a
blank and before a word or a phrase. PostgreSQL takes each other dash for an operator too, and fails on 32 in a row.';
