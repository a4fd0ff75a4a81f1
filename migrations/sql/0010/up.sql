-- Consent that was decided in another installation can be imported with its decision. An index finds the deliveries of
-- a webhook that ended.

CREATE INDEX webhook_deliveries_ended ON webhook_deliveries (tenant_id, webhook_id, state, ended_at)
    WHERE state <> 'pending';

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
