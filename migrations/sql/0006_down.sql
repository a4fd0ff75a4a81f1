-- Back to one space and exact search; the functions of before are made again after this.
DO $$
DECLARE
    v_space record;
BEGIN
    FOR v_space IN SELECT name, dimension FROM embedding_spaces LOOP
        EXECUTE format('DROP FUNCTION %I, %I, %I, %I, %I', 'recall_' || v_space.name, 'near_' || v_space.name,
                       'put_vectors_' || v_space.name, 'fill_vectors_' || v_space.name, 'index_vectors_' || v_space.name);
        EXECUTE format('ALTER TABLE %I DROP COLUMN indexed', 'vec_' || v_space.name);
        IF v_space.dimension > widest_exact() THEN
            EXECUTE format('ALTER TABLE %I DROP COLUMN signs', 'vec_' || v_space.name);
            EXECUTE format('CREATE INDEX ON %I (tenant_id, user_pk) INCLUDE (memory_id, type, category) WHERE state = ''active''',
                           'vec_' || v_space.name);
        END IF;
    END LOOP;
END $$;
DROP INDEX memories_filtered;
DROP FUNCTION read_answer, create_recall, nearest_sql, index_space, widest_exact, create_put_vectors;
