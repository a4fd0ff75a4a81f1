-- A decision made in a chat, and evidence, are checked by the database as well: the question contains the value and is a
-- stored turn of the assistant's; the user's next turn answers it; other API keys proposed it and bound the question; a
-- memory counts only while its text says the value, and an insight only if Mnema's own job drew it.
ALTER TABLE context_patches ADD COLUMN keys uuid[] NOT NULL DEFAULT '{}';   -- the API keys that proposed it
ALTER TABLE context_patches ADD COLUMN answer_id uuid;                      -- the turn that decided it, in a chat
ALTER TABLE context_patches ADD CONSTRAINT context_patches_answer CHECK ((way = 'chat') IS NOT TRUE OR answer_id IS NOT NULL);
TRUNCATE context_questions;                                                 -- those named no turn; they can be asked again
ALTER TABLE context_questions ADD COLUMN turn_id uuid NOT NULL;             -- the assistant's turn that asks
ALTER TABLE context_questions ADD COLUMN key_id uuid;                       -- the API key that bound the question to it
GRANT INSERT (keys), UPDATE (keys, answer_id) ON context_patches TO mnema_app;

-- The ASCII words of a text. app/domain/consent/statements.py is stricter: it reads every script, order and denial.
CREATE FUNCTION ascii_words(p_text text) RETURNS text[] LANGUAGE sql IMMUTABLE
    RETURN array_remove(string_to_array(regexp_replace(lower(p_text COLLATE "C"), '[^a-z0-9]+', ' ', 'g'), ' '), '');

CREATE FUNCTION has_words(p_text text, p_value text) RETURNS boolean LANGUAGE sql IMMUTABLE
    RETURN ARRAY (SELECT w FROM unnest(ascii_words(p_value)) w WHERE w NOT IN ('a', 'an', 'and', 'but', 'or', 'the', 'with'))
        <@ ascii_words(p_text);

-- What memories of a user can tell of them: a turn must be their own. A turn or a fact goes back to the turn it names, by
-- the name that one has where it comes from if it has any: either may be told. What is made of several memories is its own.
-- `confidence`: only of an insight that Mnema's own job drew and nobody changed since. No stored text may make a cast fail.
CREATE FUNCTION evidence_of(p_tenant uuid, p_user text, p_ids uuid[])
    RETURNS TABLE (id uuid, kind text, root text, confidence double precision, category text, said text)
    LANGUAGE sql STABLE AS $$
SELECT m.id, m.type, CASE WHEN pg_input_is_valid(r.root, 'uuid') THEN r.root::uuid::text ELSE r.root END,
       CASE WHEN m.type = 'insight' AND m.version = 1 AND pg_input_is_valid(m.metadata->>'confidence', 'float8')
                 AND jsonb_typeof(m.metadata->'confidence') = 'number'
                 AND EXISTS (SELECT FROM history h WHERE h.tenant_id = p_tenant AND h.memory_id = m.id::text
                                                     AND h.event = 'ADD' AND h.meta->>'job' = 'insight')
            THEN (m.metadata->>'confidence')::float8 END,
       m.category, left(m.text, 4000)
FROM memories m
LEFT JOIN memories t ON t.tenant_id = p_tenant AND t.user_id = p_user
    AND t.id = CASE WHEN pg_input_is_valid(m.source->>'turn_id', 'uuid') THEN (m.source->>'turn_id')::uuid END
CROSS JOIN LATERAL (SELECT CASE WHEN m.type IN ('turn', 'semantic')
    THEN coalesce(t.source->>'turn_id', m.source->>'turn_id', m.id::text) ELSE m.id::text END AS root) r
WHERE m.tenant_id = p_tenant AND m.user_id = p_user AND m.id = ANY (p_ids) AND m.state = 'active'
  AND CASE m.type WHEN 'turn' THEN m.role = 'user' AND coalesce(m.actor_id, m.user_id) = m.user_id
                  ELSE m.type IN ('semantic', 'episodic', 'insight') END
$$;

-- What happened in a thread after a revision, oldest first. A memory that is gone may have been a turn. `key_id`: the API
-- key that stored the turn.
CREATE FUNCTION told_since(p_tenant uuid, p_thread text, p_rev bigint, p_limit int)
    RETURNS TABLE (rev bigint, memory_id uuid, is_turn boolean, user_id text, actor_id text, role text, said text,
                   version int, active boolean, key_id uuid)
    LANGUAGE sql STABLE AS $$
SELECT c.rev, c.memory_id::uuid, c.event = 'created' AND (m.id IS NULL OR m.type = 'turn'), m.user_id, m.actor_id, m.role,
       left(m.text, 1000), m.version,
       coalesce(m.state = 'active' AND m.created_at >= asked.at, false),  -- what was said before it was asked answers nothing
       k.key_id
FROM change_log c
CROSS JOIN (
    SELECT coalesce(max(a.created_at), '-infinity') AS at FROM change_log q
    JOIN memories a ON a.tenant_id = p_tenant AND a.id = q.memory_id::uuid
    WHERE q.tenant_id = p_tenant AND q.thread_id = p_thread AND q.rev = p_rev) asked
LEFT JOIN memories m ON m.tenant_id = p_tenant AND m.id = c.memory_id::uuid
LEFT JOIN LATERAL (
    SELECT CASE WHEN pg_input_is_valid(h.meta->>'key', 'uuid') THEN (h.meta->>'key')::uuid END AS key_id FROM history h
    WHERE h.tenant_id = p_tenant AND h.memory_id = c.memory_id AND h.event = 'ADD' AND m.type = 'turn' LIMIT 1) k ON true
WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.rev > p_rev ORDER BY c.rev LIMIT p_limit
$$;

-- As before, with the texts read again: a memory that was changed or deleted since, or does not say the value, is none.
DROP FUNCTION signals_agree(text, jsonb);
CREATE FUNCTION signals_agree(p context_patches) RETURNS boolean LANGUAGE sql STABLE AS $$
WITH said AS (
    SELECT e.* FROM evidence_of(p.tenant_id, p.user_id, ARRAY (
        SELECT (s->>'memory_id')::uuid FROM jsonb_array_elements(p.signals) s
        WHERE pg_input_is_valid(s->>'memory_id', 'uuid'))) e
    WHERE has_words(e.said, p.value))
SELECT CASE p.way
    WHEN 'signals' THEN (SELECT count(DISTINCT root) >= 2 FROM said WHERE kind IN ('turn', 'semantic'))
    WHEN 'insight' THEN EXISTS (SELECT FROM said WHERE kind = 'insight' AND confidence BETWEEN 0.5 AND 1)
    ELSE true END  -- no other way applies: the table's own check
$$;

-- Whether the turn `answer_id` is the user's next one after a turn of the assistant's that asks about this very value, and
-- other keys proposed the value and bound the question.
CREATE FUNCTION answered_in_chat(p context_patches) RETURNS boolean LANGUAGE sql STABLE AS $$
SELECT EXISTS (
    SELECT FROM context_questions q
    JOIN memories a ON a.tenant_id = p.tenant_id AND a.id = q.turn_id AND a.user_id = p.user_id AND a.thread_id = q.thread_id
        AND a.type = 'turn' AND a.role = 'assistant' AND a.state = 'active' AND a.version = 1
        AND has_words(a.text, q.question)
    JOIN change_log c ON c.tenant_id = p.tenant_id AND c.memory_id = q.turn_id::text AND c.thread_id = q.thread_id
        AND c.event = 'created' AND c.rev = q.rev
    CROSS JOIN LATERAL (
        SELECT * FROM told_since(p.tenant_id, q.thread_id, q.rev, 1000) t WHERE t.is_turn ORDER BY t.rev LIMIT 1) t
    WHERE q.tenant_id = p.tenant_id AND q.patch_id = p.id AND q.user_id = p.user_id AND has_words(q.question, p.value)
      AND t.memory_id = p.answer_id AND t.role = 'user' AND t.user_id = p.user_id
      AND coalesce(t.actor_id, t.user_id) = p.user_id AND t.version = 1 AND t.active
      AND t.key_id IS NOT NULL AND t.key_id <> ALL (p.keys) AND t.key_id IS DISTINCT FROM q.key_id
      AND t.rev - q.rev = (SELECT count(*) FROM change_log l  -- none was dropped from the log
                           WHERE l.tenant_id = p.tenant_id AND l.thread_id = q.thread_id AND l.rev > q.rev AND l.rev <= t.rev))
$$;

-- A decision is made once, and is known by its transaction. What it rests on may have changed since it was read: that is a
-- serialization failure, so that the decision is thought over again.
CREATE OR REPLACE FUNCTION decide_once() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF old.state <> 'pending' AND new IS DISTINCT FROM old THEN
        RAISE EXCEPTION 'the proposal is %', old.state USING ERRCODE = 'MN409';
    END IF;
    IF NOT new.keys @> old.keys THEN
        RAISE EXCEPTION 'a key that proposed a value stays with it' USING ERRCODE = 'check_violation';
    END IF;
    IF new.state = 'applied' AND NOT signals_agree(new) THEN
        RAISE EXCEPTION 'too few signals agree' USING ERRCODE = 'serialization_failure';
    END IF;
    IF new.way = 'chat' AND NOT answered_in_chat(new) THEN
        RAISE EXCEPTION 'no next turn of the user''s answers a question about this value'
            USING ERRCODE = 'serialization_failure';
    END IF;
    IF old.state = 'pending' AND new.state <> 'pending' THEN new.decided_xid := pg_current_xact_id(); END IF;
    RETURN new;
END $$;
GRANT EXECUTE ON FUNCTION ascii_words(text), has_words(text, text), evidence_of(uuid, text, uuid[]),
    told_since(uuid, text, bigint, int), signals_agree(context_patches), answered_in_chat(context_patches) TO mnema_app;
