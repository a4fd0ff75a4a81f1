CREATE OR REPLACE FUNCTION public.matching_memories(p_tenant uuid, p_user bigint, p_categories text[], p_filters jsonb, p_limit integer)
 RETURNS uuid[]
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_custom_plan'
 SET random_page_cost TO '1.1'
AS $function$
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
END $function$;
COMMENT ON FUNCTION matching_memories(uuid,bigint,text[],jsonb,integer) IS 'Return the active memories, no chunks, of a user or of all (NULL) that match the filters; at most p_limit (NULL:
all), or NULL if they seem to be more. Its plan knows the filters, so indexes serve them. The indexes of labels and
of numbers serve who has many memories, if few have the labels or the numbers.';
