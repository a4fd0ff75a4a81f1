CREATE OR REPLACE FUNCTION public.drop_embedding_space(p_name text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_part text;
BEGIN
    LOCK TABLE memories IN ACCESS EXCLUSIVE MODE;
    DELETE FROM embedding_spaces WHERE name = p_name AND NOT active;
    IF NOT FOUND THEN RAISE EXCEPTION 'no embedding space % that is not active', p_name; END IF;
    PERFORM create_put_vectors(name) FROM embedding_spaces;  -- without the dropped space
    FOREACH v_part IN ARRAY ARRAY['neighbours', 'neighbours_of_each', 'put_vectors', 'fill_vectors', 'index_vectors',
        'record_changes', 'apply_changes', 'near', 'recall', 'near_chunks', 'find_chunks', 'keep_past', 'fill_past',
        'recall_at'] LOOP
        EXECUTE format('DROP FUNCTION %I', v_part || '_' || p_name);
    END LOOP;
    EXECUTE format('DROP TABLE %I, %I', 'vec_' || p_name, 'past_' || p_name);
END $function$;
COMMENT ON FUNCTION drop_embedding_space(text) IS 'Drop what add_embedding_space made. The lock comes first, in the order in which writers take theirs.';
