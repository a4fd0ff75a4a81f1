-- Batches: edits and deletions of many memories at once. The rows that a batch changed are the history of its
-- transaction.

CREATE TABLE memory_batches (
    tenant_id   uuid NOT NULL,
    id          uuid NOT NULL,
    action      text NOT NULL CHECK (action IN ('edit', 'delete', 'undo')),
    undoes      uuid,                               -- the batch that an undo puts back
    user_id     text,                               -- the only user of its memories: exported and erased with this user
    user_pks    bigint[] NOT NULL,                  -- the users of all memories that matched
    filters     jsonb NOT NULL,
    changes     jsonb NOT NULL,
    categories  text[] NOT NULL,                    -- of its memories before and after: a key must see all of them
    matched     integer NOT NULL,
    changed     integer NOT NULL,
    skipped     jsonb NOT NULL,                     -- {reason: count}
    actor       text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    stamp       bigint NOT NULL DEFAULT transaction_stamp(),
    PRIMARY KEY (tenant_id, id),
    CHECK ((action = 'undo') = (undoes IS NOT NULL))
);
CREATE INDEX memory_batches_listed ON memory_batches (tenant_id, created_at DESC, id DESC);
CREATE INDEX memory_batches_of_user ON memory_batches (tenant_id, user_id) WHERE user_id IS NOT NULL;
CREATE INDEX memory_batches_undone ON memory_batches (tenant_id, undoes) WHERE undoes IS NOT NULL;
-- The stamp has only its default, so a batch has the rows of its own transaction.
GRANT SELECT, DELETE, INSERT (tenant_id, id, action, undoes, user_id, user_pks, filters, changes, categories,
    matched, changed,
                              skipped, actor) ON memory_batches TO mnema_app;
GRANT UPDATE (filters, changes) ON memory_batches TO mnema_app;  -- an erasure

-- Return a record without the values of some names. It tells which it had as `not_kept`.
CREATE FUNCTION withhold(p_record jsonb, p_names text[]) RETURNS jsonb LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN p_record ?| p_names THEN (p_record - p_names) || jsonb_build_object('not_kept', (
        SELECT jsonb_agg(DISTINCT n ORDER BY n) FROM (
            SELECT jsonb_array_elements_text(coalesce(p_record->'not_kept', '[]')) AS n
            UNION ALL SELECT k FROM jsonb_object_keys(p_record) k WHERE k = ANY (p_names)) names)) ELSE p_record END;
GRANT EXECUTE ON FUNCTION withhold(jsonb, text[]) TO mnema_app;
