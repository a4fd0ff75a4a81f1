CREATE OR REPLACE FUNCTION public.nearest_sql(p_name text, p_source text)
 RETURNS text
 LANGUAGE sql
 STABLE
RETURN (SELECT replace(CASE WHEN (embedding_spaces.dimension > widest_exact()) THEN 'SELECT x.memory_id FROM (
            SELECT v.memory_id FROM {source} ORDER BY (v.signs <~> v_signs) + 0, v.memory_id LIMIT 8 * p_dense) s
        JOIN vec_{space} x ON x.tenant_id = p_tenant AND x.memory_id = s.memory_id
        ORDER BY x.embedding <=> p_vector, x.memory_id LIMIT p_dense'::text ELSE 'SELECT v.memory_id FROM {source} ORDER BY (v.embedding <=> p_vector) + 0, v.memory_id LIMIT p_dense'::text END, '{source}'::text, nearest_sql.p_source) AS replace FROM embedding_spaces WHERE (embedding_spaces.name = nearest_sql.p_name));
COMMENT ON FUNCTION nearest_sql(text,text) IS 'Return the SQL of an exact search of p_source for the nearest vectors. `+ 0` keeps the planner from the approximate
index.';
