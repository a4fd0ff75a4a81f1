CREATE OR REPLACE FUNCTION public.add_tokens(p_name text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_partition text;
BEGIN
    EXECUTE format('ALTER TABLE %I ADD COLUMN tokens bytea STORAGE EXTERNAL', 'vec_' || p_name);
    FOR v_partition IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = ('vec_' || p_name)::regclass LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN tokens SET STORAGE EXTERNAL, SET (toast_tuple_target = 8160)', v_partition);
    END LOOP;
END $function$;
