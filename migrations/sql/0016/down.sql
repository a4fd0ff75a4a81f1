-- The body of before.

-- Make neighbours_<space>.
CREATE OR REPLACE FUNCTION create_neighbours(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
BEGIN
    EXECUTE fill_places($ddl$
{{../0006/spaces/neighbours.sql}}
    $ddl$, jsonb_build_object('space', p_name));
END $space$;

SELECT create_neighbours(name) FROM embedding_spaces;
