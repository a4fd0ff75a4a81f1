-- Consent: only a decided proposal (context_patches) changes what is known of a user (user_context). Triggers refuse
-- every other write, whatever code makes it.

CREATE TABLE context_patches (
    tenant_id    uuid NOT NULL,
    id           uuid NOT NULL,
    user_id      text NOT NULL,
    field        text NOT NULL CHECK (field ~ '^[a-z][a-z_]{0,63}$'),
    value        text NOT NULL CHECK (length(value) BETWEEN 1 AND 500),
    value_key    bytea NOT NULL,                    -- equal for values that say the same
    sensitive    boolean NOT NULL,
    state        text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'approved', 'rejected',
        'expired', 'applied')),
    signals      jsonb NOT NULL,                    -- the memories that the value was learnt from
    actor        text NOT NULL,                     -- the author of the proposal
    thread_id    text,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    decided_at   timestamptz,
    decided_by   text,
    way          text CHECK (way IN ('route', 'chat', 'signals', 'insight', 'expiry')),
    decided_stamp bigint,                           -- of the transaction
    keys         uuid[] NOT NULL DEFAULT '{}',      -- the API keys that proposed it
    answer_id    uuid,                              -- the turn that decided it, if the way is `chat`
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, user_id),
    -- configuration can make more fields sensitive, never fewer
    CHECK (sensitive OR field NOT IN ('preferred_name', 'pronouns', 'city', 'language')),
    CHECK (CASE state WHEN 'pending' THEN num_nonnulls(decided_at, decided_by, way) = 0
                      ELSE num_nulls(decided_at, decided_by, way) = 0 END),
    CHECK (CASE state WHEN 'approved' THEN way IN ('route', 'chat') AND decided_at < expires_at
                      WHEN 'rejected' THEN way IN ('route', 'chat') AND decided_at < expires_at
                      WHEN 'applied' THEN way IN ('signals', 'insight') AND decided_at < expires_at AND NOT sensitive
                      WHEN 'expired' THEN way = 'expiry' AND decided_at >= expires_at ELSE true END),
    CONSTRAINT context_patches_answer CHECK ((way = 'chat') IS NOT TRUE OR answer_id IS NOT NULL)
);
CREATE UNIQUE INDEX context_patches_pending ON context_patches (tenant_id, user_id, field, value_key)
    WHERE state = 'pending';
CREATE INDEX context_patches_by_user ON context_patches (tenant_id, user_id, created_at DESC, id DESC);
CREATE INDEX context_patches_due ON context_patches (tenant_id, expires_at) WHERE state = 'pending';
-- A new proposal is undecided, and its field and value never change.
GRANT SELECT, DELETE, INSERT (tenant_id, id, user_id, field, value, value_key, sensitive, signals, actor,
    thread_id, created_at,
      expires_at, keys), UPDATE (state, signals, decided_at, decided_by, way, keys, answer_id)
          ON context_patches TO mnema_app;

CREATE TABLE user_context (
    tenant_id   uuid NOT NULL,
    user_id     text NOT NULL,
    field       text NOT NULL,
    item        text NOT NULL CHECK (item = '' OR field LIKE '%\_add'),  -- only `…_add` fields can have several values
    value       text NOT NULL,
    patch_id    uuid NOT NULL,                      -- the proposal that set this value
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, user_id, field, item),
    FOREIGN KEY (tenant_id, patch_id) REFERENCES context_patches (tenant_id, id)
);
CREATE UNIQUE INDEX user_context_patch ON user_context (tenant_id, patch_id);
GRANT SELECT, INSERT, DELETE, UPDATE (value, patch_id, updated_at) ON user_context TO mnema_app;

CREATE TABLE context_questions (                    -- the open question of a thread; a proposal has at most one
    tenant_id  uuid NOT NULL,
    thread_id  text NOT NULL,
    user_id    text NOT NULL,
    patch_id   uuid NOT NULL,
    question   text NOT NULL CHECK (length(question) BETWEEN 1 AND 1000),
    -- the thread's revision with the question; an answer has a higher one
    rev        bigint NOT NULL,
    asked_at   timestamptz NOT NULL,
    turn_id    uuid NOT NULL,                       -- the assistant's turn that asks
    key_id     uuid,                                -- the API key that bound the question to the turn
    PRIMARY KEY (tenant_id, thread_id),
    FOREIGN KEY (tenant_id, patch_id) REFERENCES context_patches (tenant_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX context_questions_patch ON context_questions (tenant_id, patch_id);
GRANT SELECT, INSERT, UPDATE, DELETE ON context_questions TO mnema_app;

-- Return the ASCII words of a text. app/domain/consent/statements.py is stricter: it reads every script, word order and
-- denials.
CREATE FUNCTION ascii_words(p_text text) RETURNS text[] LANGUAGE sql IMMUTABLE
    RETURN array_remove(string_to_array(regexp_replace(lower(p_text COLLATE "C"), '[^a-z0-9]+', ' ', 'g'), ' '), '');

-- Return whether a text contains the words of a value, apart from function words.
CREATE FUNCTION has_words(p_text text, p_value text) RETURNS boolean LANGUAGE sql IMMUTABLE
    RETURN ARRAY (SELECT w FROM unnest(ascii_words(p_value)) w
        WHERE w NOT IN ('a', 'an', 'and', 'but', 'or', 'the', 'with'))
        <@ ascii_words(p_text);

-- Return what memories of a user say about that user. A turn must be the user's own. `root` is the origin: of a turn or
-- a fact the turn that it names, by that turn's external id if it has one; of other memories their own id. `confidence`
-- is set only for an insight that Mnema's own job stored and that was not changed since. Stored text never makes a cast
-- fail.
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

-- Return what happened in a thread after a revision, oldest first. A memory that no longer exists counts as a turn.
-- `key_id` is the API key that stored the turn.
CREATE FUNCTION thread_changes_since(p_tenant uuid, p_thread text, p_rev bigint, p_limit int)
    RETURNS TABLE (rev bigint, memory_id uuid, is_turn boolean, user_id text, actor_id text, role text, said text,
                   version int, active boolean, key_id uuid)
    LANGUAGE sql STABLE AS $$
SELECT c.rev, c.memory_id::uuid, c.event = 'created'
    AND (m.id IS NULL OR m.type = 'turn'), m.user_id, m.actor_id, m.role,
       left(m.text, 1000), m.version,
       coalesce(m.state = 'active' AND m.created_at >= asked.at, false),  -- said before the question: no answer
       k.key_id
FROM change_log c
CROSS JOIN (
    SELECT coalesce(max(a.created_at), '-infinity') AS at FROM change_log q
    JOIN memories a ON a.tenant_id = p_tenant AND a.id = q.memory_id::uuid
    WHERE q.tenant_id = p_tenant AND q.thread_id = p_thread AND q.rev = p_rev) asked
LEFT JOIN memories m ON m.tenant_id = p_tenant AND m.id = c.memory_id::uuid
LEFT JOIN LATERAL (
    SELECT CASE WHEN pg_input_is_valid(h.meta->>'key', 'uuid') THEN (h.meta->>'key')::uuid END AS key_id FROM history h
    WHERE h.tenant_id = p_tenant AND h.memory_id = c.memory_id AND h.event = 'ADD' AND m.type = 'turn'
        LIMIT 1) k ON true
WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.rev > p_rev ORDER BY c.rev LIMIT p_limit
$$;

-- Return whether the evidence of a proposal is enough for its way: for `signals`, turns or facts of two origins; for
-- `insight`, an insight with a confidence of at least 0.5. The texts are read again: a memory counts only if it is
-- active and says the value.
CREATE FUNCTION signals_agree(p context_patches) RETURNS boolean LANGUAGE sql STABLE AS $$
WITH said AS (
    SELECT e.* FROM evidence_of(p.tenant_id, p.user_id, ARRAY (
        SELECT (s->>'memory_id')::uuid FROM jsonb_array_elements(p.signals) s
        WHERE pg_input_is_valid(s->>'memory_id', 'uuid'))) e
    WHERE has_words(e.said, p.value))
SELECT CASE p.way
    WHEN 'signals' THEN (SELECT count(DISTINCT root) >= 2 FROM said WHERE kind IN ('turn', 'semantic'))
    WHEN 'insight' THEN EXISTS (SELECT FROM said WHERE kind = 'insight' AND confidence BETWEEN 0.5 AND 1)
    ELSE true END  -- the table's CHECK allows no other way for `applied`
$$;

-- Return whether the turn `answer_id` is the user's next turn after an assistant's turn that asks about the value. The
-- API key that stored the answer must be another than those that proposed the value or bound the question.
CREATE FUNCTION answered_in_chat(p context_patches) RETURNS boolean LANGUAGE sql STABLE AS $$
SELECT EXISTS (
    SELECT FROM context_questions q
    JOIN memories a ON a.tenant_id = p.tenant_id AND a.id = q.turn_id AND a.user_id = p.user_id
        AND a.thread_id = q.thread_id
        AND a.type = 'turn' AND a.role = 'assistant' AND a.state = 'active' AND a.version = 1
        AND has_words(a.text, q.question)
    JOIN change_log c ON c.tenant_id = p.tenant_id AND c.memory_id = q.turn_id::text AND c.thread_id = q.thread_id
        AND c.event = 'created' AND c.rev = q.rev
    CROSS JOIN LATERAL (
        SELECT * FROM thread_changes_since(p.tenant_id, q.thread_id, q.rev, 1000) t WHERE t.is_turn
            ORDER BY t.rev LIMIT 1) t
    WHERE q.tenant_id = p.tenant_id AND q.patch_id = p.id AND q.user_id = p.user_id AND has_words(q.question, p.value)
      AND t.memory_id = p.answer_id AND t.role = 'user' AND t.user_id = p.user_id
      AND coalesce(t.actor_id, t.user_id) = p.user_id AND t.version = 1 AND t.active
      AND t.key_id IS NOT NULL AND t.key_id <> ALL (p.keys) AND t.key_id IS DISTINCT FROM q.key_id
      AND t.rev - q.rev = (SELECT count(*) FROM change_log l  -- no revision was deleted from the log
                           WHERE l.tenant_id = p.tenant_id AND l.thread_id = q.thread_id AND l.rev > q.rev
                           AND l.rev <= t.rev))
$$;
GRANT EXECUTE ON FUNCTION ascii_words(text), has_words(text, text), evidence_of(uuid, text, uuid[]),
    thread_changes_since(uuid, text, bigint, int), signals_agree(context_patches),
        answered_in_chat(context_patches) TO mnema_app;

-- Refuse a second decision, and note the transaction of the first. The evidence may have changed since the application
-- read it: that is a serialization failure, so that the caller decides again.
CREATE FUNCTION decide_once() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
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
    IF old.state = 'pending' AND new.state <> 'pending' THEN new.decided_stamp := transaction_stamp(); END IF;
    RETURN new;
END $$;
CREATE TRIGGER context_patches_decide_once BEFORE UPDATE ON context_patches FOR EACH ROW EXECUTE FUNCTION decide_once();

-- Refuse a value unless its own proposal is decided in this transaction: an old decision cannot be used again.
CREATE FUNCTION refuse_undecided_value() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF tg_op = 'UPDATE' AND new IS NOT DISTINCT FROM old THEN RETURN NULL; END IF;
    PERFORM 1 FROM context_patches p
      WHERE p.tenant_id = new.tenant_id AND p.id = new.patch_id AND p.user_id = new.user_id AND p.field = new.field
        AND p.value = new.value AND p.state IN ('approved', 'applied') AND p.decided_stamp = transaction_stamp();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no proposal decided in this transaction puts this value' USING ERRCODE = 'MN001';
    END IF;
    RETURN NULL;
END $$;
-- AFTER: row-level security is checked first
CREATE TRIGGER user_context_decided AFTER INSERT OR UPDATE ON user_context
    FOR EACH ROW EXECUTE FUNCTION refuse_undecided_value();

-- Refuse, at commit, a change of a proposal or a value without a history row of the same transaction.
CREATE FUNCTION refuse_silent_consent() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    r jsonb := to_jsonb(CASE WHEN tg_op = 'DELETE' THEN old ELSE new END);
BEGIN
    PERFORM 1 FROM history h
      WHERE h.tenant_id = (r->>'tenant_id')::uuid AND h.memory_id = coalesce(r->>'patch_id', r->>'id')
        AND h.stamp = transaction_stamp();
    IF NOT FOUND THEN
        RAISE EXCEPTION '% of % was changed (%) without a history row in the same transaction',
            coalesce(r->>'patch_id', r->>'id'), tg_table_name, tg_op USING ERRCODE = 'MN001';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER context_patches_tripwire AFTER INSERT OR UPDATE OR DELETE ON context_patches
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_silent_consent();
CREATE CONSTRAINT TRIGGER user_context_tripwire AFTER INSERT OR UPDATE OR DELETE ON user_context
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_silent_consent();
