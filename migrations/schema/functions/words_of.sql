CREATE OR REPLACE FUNCTION public.words_of(r memories)
 RETURNS tsvector
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
AS $function$
BEGIN
    RETURN text_words(coalesce(r.actor_id, '') || ' ' || r.text || ' ' || coalesce(r.steps_text, '')
        || CASE WHEN r.type = 'chunk' THEN ' ' || coalesce(r.source->>'heading', '') ELSE '' END, r.language);
END $function$;
COMMENT ON FUNCTION words_of(memories) IS 'Return the words by which a memory is found, also of a memory that is made of an image.';
