CREATE OR REPLACE FUNCTION public.index_space(p_name text, p_dimension integer)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_table text := 'vec_' || p_name;
    v_index text;
BEGIN
    EXECUTE format('ALTER TABLE %I ADD COLUMN indexed boolean NOT NULL DEFAULT false', v_table);
    EXECUTE format('CREATE INDEX ON %I (tenant_id, memory_id) WHERE NOT indexed AND state = ''active''', v_table);
    IF p_dimension <= widest_exact() THEN
        EXECUTE format('CREATE INDEX ON %I USING hnsw (embedding halfvec_cosine_ops) WHERE indexed AND state = ''active''', v_table);
        RETURN;
    END IF;
    EXECUTE format('ALTER TABLE %I ADD COLUMN signs bit(%s) GENERATED ALWAYS AS (binary_quantize(embedding)::bit(%2$s)) STORED',
                   v_table, p_dimension);
    FOR v_index IN SELECT indexrelid::regclass FROM pg_index WHERE indrelid = v_table::regclass AND indnkeyatts = 2 AND indnatts = 5 LOOP
        EXECUTE format('DROP INDEX %s', v_index);
    END LOOP;
    EXECUTE format('CREATE INDEX ON %I (tenant_id, user_pk) INCLUDE (memory_id, type, category, signs) WHERE state = ''active''', v_table);
    EXECUTE format('CREATE INDEX ON %I USING hnsw (signs bit_hamming_ops) WHERE indexed AND state = ''active''', v_table);
END $function$;
