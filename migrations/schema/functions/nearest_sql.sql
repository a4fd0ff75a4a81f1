CREATE OR REPLACE FUNCTION public.nearest_sql(p_table text, p_wide boolean, p_source text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN p_wide THEN format('SELECT x.memory_id FROM (
            SELECT v.memory_id FROM %2$s ORDER BY (v.signs <~> v_signs) + 0, v.memory_id LIMIT 8 * p_dense) s
        JOIN %1$I x ON x.tenant_id = p_tenant AND x.memory_id = s.memory_id
        ORDER BY x.embedding <=> p_vector, x.memory_id LIMIT p_dense'::text, p_table, p_source) ELSE format('SELECT v.memory_id FROM %s ORDER BY (v.embedding <=> p_vector) + 0, v.memory_id LIMIT p_dense'::text, p_source) END;
COMMENT ON FUNCTION nearest_sql(text,boolean,text) IS 'Return the SQL of an exact search for the nearest vectors. Wide vectors are compared by their signs first, which an
index holds; then the vectors of the best are read. `+ 0` keeps the planner from the approximate index.';
