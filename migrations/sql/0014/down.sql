REVOKE INSERT (state, decided_at, decided_by, way, answer_id) ON context_patches FROM mnema_app;

-- The bodies of before: a setting of the transaction says that it imports.

-- Return whether this transaction imports a user's export. A setting of the transaction says so.
CREATE FUNCTION is_importing() RETURNS boolean LANGUAGE sql STABLE
    RETURN coalesce(current_setting('app.importing', true), '') = 'on';
GRANT EXECUTE ON FUNCTION is_importing() TO mnema_app;

-- Refuse a second decision, and note the transaction of the first. The evidence may have changed since the application
-- read it: that is a serialization failure, so that the caller decides again. The evidence of an imported decision was
-- checked where it was decided, and is not checked again.
CREATE OR REPLACE FUNCTION decide_once() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF old.state <> 'pending' AND new IS DISTINCT FROM old THEN
        RAISE EXCEPTION 'the proposal is %', old.state USING ERRCODE = 'MN409';
    END IF;
    IF NOT new.keys @> old.keys THEN
        RAISE EXCEPTION 'a key that proposed a value stays with it' USING ERRCODE = 'check_violation';
    END IF;
    IF new.state = 'applied' AND NOT is_importing() AND NOT signals_agree(new) THEN
        RAISE EXCEPTION 'too few signals agree' USING ERRCODE = 'serialization_failure';
    END IF;
    IF new.way = 'chat' AND NOT is_importing() AND NOT answered_in_chat(new) THEN
        RAISE EXCEPTION 'no next turn of the user''s answers a question about this value'
            USING ERRCODE = 'serialization_failure';
    END IF;
    IF old.state = 'pending' AND new.state <> 'pending' THEN new.decided_stamp := transaction_stamp(); END IF;
    RETURN new;
END $$;

-- Refuse a value unless its own proposal is decided in this transaction: an old decision cannot be used again.
-- An import puts the values that the imported decisions put.
CREATE OR REPLACE FUNCTION refuse_undecided_value() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF tg_op = 'UPDATE' AND new IS NOT DISTINCT FROM old THEN RETURN NULL; END IF;
    PERFORM 1 FROM context_patches p
      WHERE p.tenant_id = new.tenant_id AND p.id = new.patch_id AND p.user_id = new.user_id AND p.field = new.field
        AND p.value = new.value AND p.state IN ('approved', 'applied')
        AND (p.decided_stamp = transaction_stamp() OR is_importing());
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no proposal decided in this transaction puts this value' USING ERRCODE = 'MN001';
    END IF;
    RETURN NULL;
END $$;

-- Refuse, at commit, a change of a proposal or a value without a history row of the same transaction.
CREATE OR REPLACE FUNCTION refuse_silent_consent() RETURNS trigger LANGUAGE plpgsql
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

DROP FUNCTION has_own_history(uuid, uuid);
