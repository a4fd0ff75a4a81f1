CREATE OR REPLACE FUNCTION public.index_words()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
BEGIN
    IF tg_op = 'INSERT' OR (new.text, new.steps_text, new.actor_id, new.language, new.source->'heading')
            IS DISTINCT FROM (old.text, old.steps_text, old.actor_id, old.language, old.source->'heading') THEN
        new.tsv := indexed_words(new);
    END IF;
    RETURN new;
END $function$;
COMMENT ON FUNCTION index_words() IS 'Keep the words of a memory in step with its text. A generated column cannot do it without writing every row anew.';
