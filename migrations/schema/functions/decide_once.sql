CREATE OR REPLACE FUNCTION public.decide_once()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
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
END $function$;
COMMENT ON FUNCTION decide_once() IS 'Refuse a second decision, and note the transaction of the first. The evidence may have changed since the application
read it: that is a serialization failure, so that the caller decides again.';
