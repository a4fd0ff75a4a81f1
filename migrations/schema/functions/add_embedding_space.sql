CREATE OR REPLACE FUNCTION public.add_embedding_space(p_name text, p_model text, p_dimension integer, p_partitions integer)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    PERFORM create_embedding_space(p_name, p_model, p_dimension, p_partitions);
    PERFORM create_past(p_name);
    PERFORM create_put_vectors(name) FROM embedding_spaces;  -- each function names all other spaces
    PERFORM create_journal(p_name), create_recall(p_name), create_chunk_recall(p_name), price_recall(p_name);
    PERFORM guard_tables();
END $function$;
COMMENT ON FUNCTION add_embedding_space(text,text,integer,integer) IS 'Make a space: its tables and all its functions.';
