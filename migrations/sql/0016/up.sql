-- A write compares its text by one plan, which is not made anew for each call.

-- Make neighbours_<space>.
CREATE OR REPLACE FUNCTION create_neighbours(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
BEGIN
    EXECUTE fill_places($ddl$
{{spaces/neighbours.sql}}
    $ddl$, jsonb_build_object('space', p_name));
END $space$;

SELECT create_neighbours(name) FROM embedding_spaces;
