CREATE OR REPLACE FUNCTION public.indexed_words(r memories)
 RETURNS tsvector
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
AS $function$
DECLARE
    v_kind text := CASE WHEN r.type = 'chunk' THEN '_c' ELSE '_' END;
BEGIN
    RETURN words_of(r) || array_to_tsvector(
        ARRAY[v_kind || 't' || replace(r.tenant_id::text, '-', ''), v_kind || 'u' || r.user_pk::text]);
END $function$;
COMMENT ON FUNCTION indexed_words(memories) IS 'Return what the index has of a memory: its words, and those that stand for its tenant and user.';
