-- Store vectors and tokens of existing memories. Of the memories p_changed, keep how they were, copy category and state
-- into every space, and delete the vectors of a changed text from the other spaces. The memories p_stale lose their
-- vectors in every space, because their text is new and has no vector yet.
CREATE OR REPLACE FUNCTION put_vectors_{space}(
    p_tenant uuid, p_ids uuid[], p_vectors halfvec[], p_tokens bytea[], p_changed uuid[], p_stale uuid[])
    RETURNS void LANGUAGE plpgsql AS $fn$
BEGIN
    PERFORM keep_past_{space}(p_tenant, p_changed);
    IF p_stale <> '{}' THEN DELETE FROM vec_{space} WHERE tenant_id = p_tenant AND memory_id = ANY (p_stale); END IF;
    INSERT INTO vec_{space} AS v (tenant_id, user_pk, memory_id, type, category, state, thread_key, embedding, tokens)
        SELECT m.tenant_id, m.user_pk, m.id, m.type, m.category, m.state, thread_key(m.thread_id), x.embedding, x.tokens
        FROM unnest(p_ids, p_vectors, p_tokens) AS x(id, embedding, tokens) JOIN memories m ON m.tenant_id = p_tenant
            AND m.id = x.id
        WHERE x.id = ANY (p_changed)
        ON CONFLICT (tenant_id, memory_id)
            DO UPDATE SET embedding = excluded.embedding, tokens = excluded.tokens, category = excluded.category,
                          state = excluded.state, indexed = false;
    UPDATE vec_{space} v SET category = m.category, state = m.state, indexed = false FROM memories m
        WHERE m.tenant_id = p_tenant AND m.id = ANY (p_changed) AND v.tenant_id = p_tenant AND v.memory_id = m.id
          AND (v.category, v.state) IS DISTINCT FROM (m.category, m.state);{change_other_spaces}
END $fn$;
GRANT EXECUTE ON FUNCTION put_vectors_{space} TO mnema_app;
