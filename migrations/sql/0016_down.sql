DROP FUNCTION answered_in_chat(context_patches), signals_agree(context_patches), told_since(uuid, text, bigint, int),
    evidence_of(uuid, text, uuid[]), has_words(text, text), ascii_words(text);
ALTER TABLE context_patches DROP COLUMN answer_id, DROP COLUMN keys;
ALTER TABLE context_questions DROP COLUMN turn_id, DROP COLUMN key_id;
CREATE FUNCTION signals_agree(p_way text, p_signals jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE
    RETURN CASE p_way
        WHEN 'signals' THEN (SELECT count(DISTINCT s->>'root') >= 2 FROM jsonb_array_elements(p_signals) s
                             WHERE s->>'kind' IN ('turn', 'semantic'))
        WHEN 'insight' THEN EXISTS (SELECT FROM jsonb_array_elements(p_signals) s WHERE s->>'kind' = 'insight'
            AND CASE jsonb_typeof(s->'confidence') WHEN 'number' THEN (s->>'confidence')::float8 >= 0.5 ELSE false END)
        ELSE true END;
GRANT EXECUTE ON FUNCTION signals_agree(text, jsonb) TO mnema_app;
