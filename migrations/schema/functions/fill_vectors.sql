-- Each embedding space has one. This is the one of the space minilm_l6_v2.
CREATE OR REPLACE FUNCTION public.fill_vectors_minilm_l6_v2(p_tenant uuid, p_ids uuid[], p_versions integer[], p_vectors halfvec[], p_tokens bytea[])
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_count bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    WITH same AS MATERIALIZED (
        SELECT m.user_pk, m.id, CASE WHEN m.fact_topic IS NULL THEN m.type ELSE 'fact' END AS type, m.category, m.state,
               thread_key(m.thread_id) AS thread_key, x.embedding, x.tokens
        FROM unnest(p_ids, p_versions, p_vectors, p_tokens) AS x(id, version, embedding, tokens)
        JOIN memories m ON m.tenant_id = p_tenant AND m.id = x.id AND m.version = x.version
        ORDER BY m.id FOR SHARE OF m)
    INSERT INTO vec_minilm_l6_v2 AS v (tenant_id, user_pk, memory_id, type, category, state, thread_key, embedding, tokens)
        SELECT p_tenant, user_pk, id, type, category, state, thread_key, embedding, tokens FROM same
        ON CONFLICT (tenant_id, memory_id) DO UPDATE SET tokens = excluded.tokens, indexed = false
            WHERE v.tokens IS NULL AND excluded.tokens IS NOT NULL;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $function$;
COMMENT ON FUNCTION fill_vectors_minilm_l6_v2(uuid,uuid[],integer[],halfvec[],bytea[]) IS 'Store vectors and tokens that are missing, of each memory that still has the version which was read: a concurrent
change of the text brings its own vector. Return how many.';
