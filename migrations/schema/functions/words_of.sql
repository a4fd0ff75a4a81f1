CREATE OR REPLACE FUNCTION public.words_of(r memories)
 RETURNS tsvector
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN to_tsvector('english'::regconfig, searched_text(((((COALESCE((r).actor_id, ''::text) || ' '::text) || (r).text) || ' '::text) || COALESCE((r).steps_text, ''::text))));
COMMENT ON FUNCTION words_of(memories) IS 'Return the words by which a memory is found, also of a memory that is made of an image: the expression of the column
tsv, for all but chunks.';
