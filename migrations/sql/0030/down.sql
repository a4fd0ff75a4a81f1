-- The body of before.

-- Make neighbours_<space>.
CREATE OR REPLACE FUNCTION create_neighbours(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
BEGIN
    EXECUTE fill_places($ddl$
{{../0016/spaces/neighbours.sql}}
    $ddl$, jsonb_build_object('space', p_name));
END $space$;

-- Drop what add_embedding_space made. The lock comes first, in the order in which writers take theirs.
CREATE OR REPLACE FUNCTION drop_embedding_space(p_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_part text;
BEGIN
    LOCK TABLE memories IN ACCESS EXCLUSIVE MODE;
    DELETE FROM embedding_spaces WHERE name = p_name AND NOT active;
    IF NOT FOUND THEN RAISE EXCEPTION 'no embedding space % that is not active', p_name; END IF;
    PERFORM create_put_vectors(name) FROM embedding_spaces;  -- without the dropped space
    FOREACH v_part IN ARRAY ARRAY['neighbours', 'put_vectors', 'fill_vectors', 'index_vectors', 'record_changes',
        'apply_changes', 'near', 'recall', 'near_chunks', 'find_chunks', 'keep_past', 'fill_past',
        'recall_at'] LOOP
        EXECUTE format('DROP FUNCTION %I', v_part || '_' || p_name);
    END LOOP;
    EXECUTE format('DROP TABLE %I, %I', 'vec_' || p_name, 'past_' || p_name);
END $$;

SELECT create_neighbours(name) FROM embedding_spaces;

DO $$
DECLARE
    v_name text;
BEGIN
    FOR v_name IN SELECT name FROM embedding_spaces LOOP
        EXECUTE format('DROP FUNCTION %I', 'neighbours_of_each_' || v_name);
    END LOOP;
END $$;
