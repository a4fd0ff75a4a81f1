CREATE OR REPLACE FUNCTION public.create_neighbours(p_name text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    EXECUTE fill_places($ddl$
-- Return the memories that a new text is compared with, in one call and one scan. Semantic memories
-- only: the best p_near of its category (for the merge bands), the best p_link of all visible categories (for
-- relations), and the memory with the same text, whatever its vector is.
-- All texts of a user share some meaning, such as the user's name. So a relation needs a cosine of p_link_min with the
-- user's mean vector subtracted, and without that. The mean is that of the user's 64 newest memories and of 10 zero
-- vectors, which keep a few memories from removing their own topic. It is read only if some memory is close.
CREATE OR REPLACE FUNCTION neighbours_{space}(
    p_tenant uuid, p_user text, p_category text, p_categories text[], p_hash bytea, p_vector halfvec,
    p_near int, p_link int, p_link_min real)
    RETURNS TABLE (id uuid, similarity double precision, near boolean, link boolean, equal boolean,
        category text, text text,
                   thread_id text, importance smallint, pinned boolean, tags text[], version int,
                   created_at timestamptz, expires_at timestamptz, valid_from timestamptz, valid_to timestamptz)
    LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $fn$
#variable_conflict use_column
DECLARE
    v_user bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_user := user_pk_of(p_tenant, p_user);
    IF v_user IS NULL THEN RETURN; END IF;
    RETURN QUERY
        WITH scan AS MATERIALIZED (
            SELECT v.memory_id, v.category, (v.embedding <=> p_vector) AS distance FROM vec_{space} v
            WHERE v.tenant_id = p_tenant AND v.user_pk = v_user AND v.state = 'active' AND v.type = 'semantic'
              AND (p_categories IS NULL OR v.category = ANY (p_categories))),
        close AS MATERIALIZED (
            SELECT memory_id, distance FROM scan WHERE distance <= 1 - p_link_min ORDER BY distance LIMIT 4 * p_link),
        shared AS MATERIALIZED (
            -- as avg(embedding), which takes three times as long
            SELECT (sum(x.embedding::vector)
                    * array_fill((1.0 / count(*))::real, ARRAY[vector_dims(p_vector)])::vector)::halfvec AS mean FROM (
                SELECT v.embedding FROM vec_{space} v WHERE v.tenant_id = p_tenant
                    AND v.memory_id = ANY (ARRAY(SELECT memory_id FROM scan ORDER BY memory_id DESC LIMIT 64))
                UNION ALL SELECT p_vector - p_vector FROM generate_series(1, 10)) x),
        linkable AS (
            SELECT c.memory_id, c.distance,
                (v.embedding - (SELECT mean FROM shared)) <=> (SELECT p_vector - mean FROM shared) AS apart
            FROM close c JOIN vec_{space} v ON v.tenant_id = p_tenant AND v.memory_id = c.memory_id
            OFFSET 0),  -- `apart` is computed once
        picked AS (
            (SELECT memory_id, distance, true AS near, false AS link FROM scan WHERE category = p_category
                ORDER BY distance LIMIT p_near)
            UNION ALL
            (SELECT l.memory_id, l.distance, false, true FROM linkable l WHERE l.apart <= 1 - p_link_min
                ORDER BY l.apart LIMIT p_link)
            UNION ALL
            SELECT m.id, (SELECT s.distance FROM scan s WHERE s.memory_id = m.id), false, false FROM memories m
                WHERE m.tenant_id = p_tenant AND m.user_pk = v_user AND m.category = p_category
                AND m.text_hash = p_hash AND m.type = 'semantic' AND m.state = 'active')
        SELECT m.id, 1 - p.distance, p.near, p.link, m.text_hash = p_hash AND m.category = p_category, m.category,
               m.text, m.thread_id, m.importance, m.pinned, m.tags, m.version, m.created_at, m.expires_at,
               m.valid_from, m.valid_to
        FROM (SELECT memory_id, min(distance) AS distance, bool_or(near) AS near, bool_or(link) AS link
              FROM picked GROUP BY memory_id) p
        JOIN memories m ON m.tenant_id = p_tenant AND m.id = p.memory_id AND m.state = 'active'
        ORDER BY 2 DESC NULLS LAST, m.id;
END $fn$;
GRANT EXECUTE ON FUNCTION neighbours_{space} TO mnema_app;

COMMENT ON FUNCTION neighbours_{space} IS 'Return the memories that a new text is compared with, in one call and one scan. Semantic memories
only: the best p_near of its category (for the merge bands), the best p_link of all visible categories (for
relations), and the memory with the same text, whatever its vector is.
All texts of a user share some meaning, such as the user''s name. So a relation needs a cosine of p_link_min with the
user''s mean vector subtracted, and without that. The mean is that of the user''s 64 newest memories and of 10 zero
vectors, which keep a few memories from removing their own topic. It is read only if some memory is close.';
    $ddl$, jsonb_build_object('space', p_name));
    EXECUTE fill_places($ddl$
-- Return for each of several texts of one user what neighbours_<space> returns for it, in one scan of the user's
-- vectors. `place` is that of the text, from 1.
CREATE OR REPLACE FUNCTION neighbours_of_each_{space}(
    p_tenant uuid, p_user text, p_of text[], p_categories text[], p_hashes bytea[], p_vectors halfvec[],
    p_near int, p_link int, p_link_min real)
    RETURNS TABLE (place int, id uuid, similarity double precision, near boolean, link boolean, equal boolean,
        category text, text text,
                   thread_id text, importance smallint, pinned boolean, tags text[], version int,
                   created_at timestamptz, expires_at timestamptz, valid_from timestamptz, valid_to timestamptz)
    LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $fn$
#variable_conflict use_column
DECLARE
    v_user bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_user := user_pk_of(p_tenant, p_user);
    IF v_user IS NULL THEN RETURN; END IF;
    RETURN QUERY
        WITH mine AS MATERIALIZED (
            SELECT v.memory_id, v.category, v.embedding FROM vec_{space} v
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
                JOIN vec_{space} v ON v.tenant_id = p_tenant AND v.memory_id = c.memory_id
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
END $fn$;
GRANT EXECUTE ON FUNCTION neighbours_of_each_{space} TO mnema_app;

COMMENT ON FUNCTION neighbours_of_each_{space} IS 'Return for each of several texts of one user what neighbours_<space> returns for it, in one scan of the user''s
vectors. `place` is that of the text, from 1.';
    $ddl$, jsonb_build_object('space', p_name));
END $function$;
COMMENT ON FUNCTION create_neighbours(text) IS 'Make neighbours_<space> and neighbours_of_each_<space>.';
