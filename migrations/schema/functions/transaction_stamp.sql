CREATE OR REPLACE FUNCTION public.transaction_stamp()
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE
AS $function$
DECLARE
    v_epoch text := current_setting('app.epoch', true);
BEGIN
    IF v_epoch IS NULL OR v_epoch = '' THEN
        v_epoch := (SELECT e.number::bigint << 48 FROM public.epochs e ORDER BY e.number DESC LIMIT 1)::text;
        PERFORM set_config('app.epoch', v_epoch, true);
    END IF;
    RETURN v_epoch::bigint | pg_current_xact_id()::text::bigint;
END $function$;
