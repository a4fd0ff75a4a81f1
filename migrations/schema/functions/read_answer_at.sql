CREATE OR REPLACE FUNCTION public.read_answer_at(p_tenant uuid, p_user text, p_categories text[], p_filters jsonb, p_whole text[], p_whole_limit integer, p_chosen uuid[], p_as_of timestamp with time zone, p_valid_at timestamp with time zone, p_today text[])
 RETURNS TABLE(part text, place bigint, memory memories)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
#variable_conflict use_column
DECLARE
    v_at timestamptz := coalesce(p_as_of, 'infinity');
    v_user bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_user := coalesce(user_pk_of(p_tenant, p_user), -1);
    IF p_whole <> '{}' THEN
        RETURN QUERY SELECT 'whole', row_number() OVER (ORDER BY w.pinned DESC, w.importance DESC, w.updated_at DESC,
                w.id) AS place, w::memories
            FROM memories_at(p_tenant, v_user, v_at) w JOIN memories m ON m.tenant_id = p_tenant AND m.id = w.id
            WHERE w.type <> 'chunk' AND w.category = ANY (p_whole) AND (p_today IS NULL OR m.category = ANY (p_today))
              AND answers_at(w, v_at, p_valid_at) AND memory_matches(w, p_filters)
            ORDER BY place LIMIT p_whole_limit;
    END IF;
    RETURN QUERY SELECT 'chosen', c.place, w::memories
        FROM unnest(p_chosen) WITH ORDINALITY c(id, place)
        JOIN memories m ON m.tenant_id = p_tenant AND m.id = c.id AND m.user_pk = v_user
        CROSS JOIN LATERAL memory_at(m, v_at) w
        WHERE w.category = ANY (p_categories) AND (p_today IS NULL OR m.category = ANY (p_today))
          AND answers_at(w, v_at, p_valid_at) AND memory_matches(w, p_filters)
        ORDER BY c.place;
END $function$;
COMMENT ON FUNCTION read_answer_at(uuid,text,text[],jsonb,text[],integer,uuid[],timestamp with time zone,timestamp with time zone,text[]) IS 'Return the memories of an answer in time: at most p_whole_limit of the categories p_whole, and the chosen ones, as
they were. `place` orders each part. The other arguments are those of recall_at_<space>.';
