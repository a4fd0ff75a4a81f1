CREATE OR REPLACE FUNCTION public.apply_facts(p_tenant uuid, p_statements jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_answers jsonb := '[]';
    v_done jsonb;
    v_some jsonb;
    v_topic text;
    v_rev bigint;
    v_topics jsonb := '{}';
    v_memories jsonb;
    s jsonb;
    o jsonb;
BEGIN
    FOR s IN SELECT value FROM jsonb_array_elements(p_statements) LOOP
        v_done := '[]';
        FOR o IN SELECT value FROM jsonb_array_elements(s->'operations') LOOP
            v_topic := coalesce(o->>'topic_key', last_topic(p_tenant, s->>'user_id', s->>'thread_id', NULL));
            CONTINUE WHEN v_topic IS NULL;
            v_topics := v_topics || jsonb_build_object(jsonb_build_array(s->>'user_id', v_topic)::text,
                jsonb_build_object('actor', s->'actor') || coalesce(s->'names'->v_topic, '{}'));
            SELECT jsonb_agg(d) INTO v_some FROM apply_fact_operation(p_tenant, s, v_topic, o) d WHERE d IS NOT NULL;
            v_done := v_done || coalesce(v_some, '[]');
        END LOOP;
        v_rev := record_facts(p_tenant, s, v_done);
        SELECT v_answers || jsonb_build_object('turn', s->'turn', 'revision', v_rev, 'done', coalesce(jsonb_agg(
                jsonb_build_object('action', d->>'action', 'fact', d->'after') ORDER BY n), '[]'))
            INTO v_answers FROM jsonb_array_elements(v_done) WITH ORDINALITY x(d, n);
    END LOOP;
    -- once a topic, after all statements, and in order
    SELECT jsonb_agg(m) INTO v_memories FROM (
        SELECT write_fact_memory(p_tenant, t.key::jsonb->>0, t.key::jsonb->>1, t.value) AS m
        FROM jsonb_each(v_topics) t ORDER BY t.key) w WHERE m IS NOT NULL;
    RETURN jsonb_build_object('answers', v_answers, 'memories', coalesce(v_memories, '[]'));
END $function$;
COMMENT ON FUNCTION apply_facts(uuid,jsonb) IS 'Apply statements [{user_id, thread_id, category, actor, source_message_id, turn, stated_at, max_rank, names:
{topic_key: {one, many}}, operations: [{op, topic_key, entries: [{rank, value, key, id}], ranks}]}]. Returns
{answers, memories}: one answer {turn, revision, done: [{action, fact}]} a statement, where `turn` is the memory with
the statement''s text, if there is one; and what write_fact_memory returns of each topic that was stated.
The caller holds the locks of the users'' rows, so that concurrent statements of a user are one sequence.';
