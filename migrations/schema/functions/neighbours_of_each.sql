-- Each embedding space has one. This is the one of the space minilm_l6_v2.
CREATE OR REPLACE FUNCTION public.neighbours_of_each_minilm_l6_v2(p_tenant uuid, p_user text, p_of text[], p_categories text[], p_hashes bytea[], p_vectors halfvec[], p_near integer, p_link integer, p_link_min real)
 RETURNS TABLE(place integer, id uuid, similarity double precision, near boolean, link boolean, equal boolean, category text, text text, thread_id text, importance smallint, pinned boolean, tags text[], version integer, created_at timestamp with time zone, expires_at timestamp with time zone, valid_from timestamp with time zone, valid_to timestamp with time zone)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
#variable_conflict use_column
DECLARE
    v_user bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_user := user_pk_of(p_tenant, p_user);
    IF v_user IS NULL THEN RETURN; END IF;
    RETURN QUERY
        WITH mine AS MATERIALIZED (
            SELECT v.memory_id, v.category, v.embedding FROM vec_minilm_l6_v2 v
            WHERE v.tenant_id = p_tenant AND v.user_pk = v_user AND v.state = 'active' AND v.type = 'semantic'
              AND (p_categories IS NULL OR v.category = ANY (p_categories))),
        shared AS MATERIALIZED (
            SELECT (sum(x.embedding::vector) * array_fill(
                        (1.0 / count(*))::real, ARRAY[vector_dims(p_vectors[1])])::vector)::halfvec AS mean FROM (
                (SELECT v.embedding FROM mine v ORDER BY v.memory_id DESC LIMIT 64)
                UNION ALL SELECT p_vectors[1] - p_vectors[1] FROM generate_series(1, 10)) x)
        SELECT w.place::int, n.* FROM unnest(p_of, p_hashes, p_vectors)
            WITH ORDINALITY AS w(of_category, hash, vector, place)
        CROSS JOIN LATERAL (
            WITH scan AS MATERIALIZED (
                SELECT v.memory_id, v.category, v.embedding <=> w.vector AS distance FROM mine v),
            close AS (
                SELECT c.memory_id, c.distance,
                       (v.embedding - (SELECT mean FROM shared)) <=> (SELECT w.vector - mean FROM shared) AS apart
                FROM (SELECT memory_id, distance FROM scan WHERE distance <= 1 - p_link_min
                      ORDER BY distance LIMIT 4 * p_link) c
                JOIN vec_minilm_l6_v2 v ON v.tenant_id = p_tenant AND v.memory_id = c.memory_id
                OFFSET 0),  -- `apart` is computed once
            picked AS (
                (SELECT memory_id, distance, true AS near, false AS link FROM scan
                    WHERE category = w.of_category ORDER BY distance LIMIT p_near)
                UNION ALL
                (SELECT memory_id, distance, false, true FROM close WHERE apart <= 1 - p_link_min
                    ORDER BY apart LIMIT p_link)
                UNION ALL
                SELECT m.id, (SELECT s.distance FROM scan s WHERE s.memory_id = m.id), false, false
                    FROM memories m
                    WHERE m.tenant_id = p_tenant AND m.user_pk = v_user AND m.category = w.of_category
                      AND m.text_hash = w.hash AND m.type = 'semantic' AND m.state = 'active')
            SELECT m.id, 1 - p.distance AS similarity, p.near, p.link,
                   m.text_hash = w.hash AND m.category = w.of_category AS equal, m.category, m.text, m.thread_id,
                   m.importance, m.pinned, m.tags, m.version, m.created_at, m.expires_at, m.valid_from, m.valid_to
            FROM (SELECT memory_id, min(distance) AS distance, bool_or(near) AS near, bool_or(link) AS link
                  FROM picked GROUP BY memory_id) p
            JOIN memories m ON m.tenant_id = p_tenant AND m.id = p.memory_id AND m.state = 'active'
            ORDER BY 2 DESC NULLS LAST, m.id) n;
END $function$;
COMMENT ON FUNCTION neighbours_of_each_minilm_l6_v2(uuid,text,text[],text[],bytea[],halfvec[],integer,integer,real) IS 'Return for each of several texts of one user what neighbours_<space> returns for it, in one scan of the user''s
vectors. `place` is that of the text, from 1.';
