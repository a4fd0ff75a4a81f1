-- An index of the numbers in metadata serves filters of ranges.

SET LOCAL statement_timeout = 0;  -- a large table takes long

-- Return the labels of the numbers below each key of metadata, hashed with the tenant and the key. A key with more than
-- 8 numbers has the label -1, and so has each of more than 32 keys with numbers: every range asks for it.
-- app/domain/where/numbers.py tells what a label is. A number that needs at most 16 bits, perhaps with eighths, has
-- another fourth label than those that are only near it. There is no query in it, because one takes as long as all the
-- rest.
CREATE FUNCTION number_labels(p_tenant uuid, p_metadata jsonb) RETURNS bigint[]
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 1000 AS $$
DECLARE
    v_pairs jsonb := jsonb_path_query_array(p_metadata, '$.keyvalue() ? (exists(@.value.** ? (@.type() == "number")))');
    v_numbers jsonb;
    v_seed text;
    v_number numeric;
    v_near float4;
    v_code int;
    v_labels bigint[] := '{}';
BEGIN
    FOR v_pair IN 0 .. jsonb_array_length(v_pairs) - 1 LOOP
        v_seed := p_tenant::text || (v_pairs->v_pair->>'key');
        v_numbers := jsonb_path_query_array(v_pairs->v_pair->'value', 'strict $.** ? (@.type() == "number")');
        IF jsonb_array_length(v_numbers) > 8 OR jsonb_array_length(v_pairs) > 32 THEN
            v_labels := v_labels || hashtextextended(v_seed, -1);
            CONTINUE;
        END IF;
        FOR v_place IN 0 .. jsonb_array_length(v_numbers) - 1 LOOP
            v_number := (v_numbers->v_place)::numeric;
            v_near := CASE WHEN abs(v_number) < 1e-37 THEN 0 ELSE greatest(least(v_number, 1e37), -1e37) END;
            v_code := ('x' || encode(float4send(abs(v_near)), 'hex'))::bit(32)::int >> 8;
            v_code := CASE WHEN v_near < 0 THEN (1 << 23) - 1 - v_code ELSE (1 << 23) + v_code END;
            v_labels := v_labels || ARRAY[hashtextextended(v_seed, v_code >> 18),
                hashtextextended(v_seed, (1 << 24) + (v_code >> 12)),
                hashtextextended(v_seed, (2 << 24) + (v_code >> 6)),
                hashtextextended(v_seed, v_code + CASE WHEN (abs(v_number) < 65536 AND v_number % 1 = 0)
                    OR (abs(v_number) < 8192 AND v_number % 0.125 = 0) THEN 4 << 24 ELSE 3 << 24 END)];
        END LOOP;
    END LOOP;
    RETURN v_labels;
END $$;
GRANT EXECUTE ON FUNCTION number_labels(uuid, jsonb) TO mnema_app, mnema_search;

-- The list of rows that are not yet sorted in is short, because a search compares each of them with each label of its
-- range.
CREATE INDEX memories_numbers ON memories USING gin (number_labels(tenant_id, metadata))
    WITH (gin_pending_list_limit = 64)  -- kB
    WHERE state = 'active' AND metadata @? 'strict $.** ? (@.type() == "number")';

-- Return the labels of numbers, hashed with the tenant and their key; NULL for NULL.
CREATE FUNCTION hashed_labels(p_tenant uuid, p_labels jsonb) RETURNS bigint[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN p_labels IS NOT NULL THEN ARRAY(SELECT hashtextextended(p_tenant::text || k.key, l.label::bigint)
        FROM jsonb_each(p_labels) k CROSS JOIN LATERAL jsonb_array_elements_text(k.value) l(label)) END;
GRANT EXECUTE ON FUNCTION hashed_labels(uuid, jsonb) TO mnema_search;

-- Return the active memories, no chunks, that have numbers in the ranges of the filters and that match all filters;
-- NULL if more than p_most have such numbers. Row-level security refuses the index, so the tenant comes from the
-- transaction (security.sql).
CREATE FUNCTION numbered_memories(p_user bigint, p_categories text[], p_filters jsonb, p_most int) RETURNS uuid[]
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
    SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    v_tenant uuid := current_tenant();
    v_first bigint[] := hashed_labels(v_tenant, p_filters->'where_ranges'->0);
    v_second bigint[] := hashed_labels(v_tenant, p_filters->'where_ranges'->1);
    v_read bigint;
    v_ids uuid[];
BEGIN
    SELECT count(*), array_agg(m.id) FILTER (WHERE m.tenant_id = v_tenant AND (p_user IS NULL OR m.user_pk = p_user)
            AND m.type <> 'chunk' AND m.category = ANY (p_categories) AND memory_matches(m, p_filters))
        INTO v_read, v_ids FROM (
            SELECT * FROM memories w WHERE number_labels(w.tenant_id, w.metadata) && v_first
            AND (v_second IS NULL OR number_labels(w.tenant_id, w.metadata) && v_second)
            AND w.state = 'active' AND w.metadata @? 'strict $.** ? (@.type() == "number")' LIMIT p_most + 1) m;
    RETURN CASE WHEN v_read <= p_most THEN coalesce(v_ids, '{}') END;
END $$;
GRANT EXECUTE ON FUNCTION numbered_memories(bigint, text[], jsonb, int) TO mnema_app;
GRANT CREATE ON SCHEMA public TO mnema_search;  -- only an owner who may create can own
ALTER FUNCTION numbered_memories(bigint, text[], jsonb, int) OWNER TO mnema_search;
REVOKE CREATE ON SCHEMA public FROM mnema_search;

-- Return the active memories, no chunks, of a user or of all (NULL) that match the filters; at most p_limit (NULL:
-- all), or NULL if they seem to be more. Its plan knows the filters, so indexes serve them. The indexes of labels and
-- of numbers serve who has many memories, if few have the labels or the numbers.
CREATE OR REPLACE FUNCTION matching_memories(
    p_tenant uuid, p_user bigint, p_categories text[], p_filters jsonb, p_limit int) RETURNS uuid[]
    LANGUAGE plpgsql STABLE SET plan_cache_mode = force_custom_plan SET random_page_cost = 1.1 AS $$
DECLARE
    v_many CONSTANT int := 5000;
    v_few CONSTANT int := 500;
    v_sample CONSTANT int := 200;
    v_first bigint := coalesce(p_user, 0);  -- bounds in variables, so that the index is used
    v_last bigint := coalesce(p_user, 9223372036854775807);
    v_labels jsonpath := CASE WHEN p_filters ? 'where_labels'
        THEN format('$."%s" ? (%s)', p_tenant, p_filters->>'where_labels')::jsonpath END;
    v_numbers jsonpath := p_filters->>'where_numbers';
    v_matching int;
    v_labelled int;
    v_numbered int;
    v_large boolean := p_user IS NULL;
    v_ids uuid[];
BEGIN
    IF NOT v_large AND (v_labels IS NOT NULL OR v_numbers IS NOT NULL) THEN
        SELECT count(*) = v_many INTO v_large FROM (SELECT FROM memories m WHERE m.tenant_id = p_tenant
            AND m.user_pk = p_user AND m.state = 'active' AND m.type <> 'chunk' LIMIT v_many) counted;
    END IF;
    -- the rows behind the first few tell in a millisecond that many match, or that many have the labels or numbers, of
    -- which the index would read all before the first row; who has no more rows is read whole
    SELECT count(*) FILTER (WHERE memory_matches(m, p_filters)),
           count(*) FILTER (WHERE v_large AND labels_of(m.tenant_id, m.tags, m.metadata) @? v_labels),
           count(*) FILTER (WHERE v_large AND jsonb_path_match(m.metadata, v_numbers))
        INTO v_matching, v_labelled, v_numbered FROM (
            SELECT * FROM memories w WHERE w.tenant_id = p_tenant AND w.user_pk BETWEEN v_first AND v_last
            AND w.state = 'active' AND w.type <> 'chunk' AND w.category = ANY (p_categories)
            OFFSET coalesce(p_limit, v_few) LIMIT v_sample) m;
    IF p_limit IS NOT NULL AND v_matching > v_sample / 8 THEN RETURN NULL; END IF;
    v_labelled := CASE WHEN v_labels IS NOT NULL THEN v_labelled ELSE v_sample END;
    v_numbered := CASE WHEN v_numbers IS NOT NULL THEN v_numbered ELSE v_sample END;
    IF v_large AND least(v_labelled, v_numbered) <= v_sample / 8 THEN
        v_ids := CASE WHEN v_numbered < v_labelled THEN numbered_memories(p_user, p_categories, p_filters, v_many)
                      ELSE labelled_memories(p_user, p_categories, p_filters, v_many) END;
        IF v_ids IS NOT NULL OR (p_user IS NULL AND p_limit IS NOT NULL) THEN
            RETURN v_ids[:coalesce(p_limit, v_many)];
        END IF;
    END IF;
    IF p_user IS NULL THEN
        RETURN ARRAY(SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant
            AND m.state = 'active' AND m.type <> 'chunk' AND m.category = ANY (p_categories)
            AND memory_matches(m, p_filters) LIMIT p_limit);
    END IF;
    RETURN ARRAY(SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant AND m.user_pk = p_user
        AND m.state = 'active' AND m.type <> 'chunk' AND m.category = ANY (p_categories)
        AND memory_matches(m, p_filters) LIMIT p_limit);
END $$;
