CREATE OR REPLACE FUNCTION public.begin_epoch()
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    IF (SELECT e.database FROM epochs e ORDER BY e.number DESC LIMIT 1) IS DISTINCT FROM database_identity() THEN
        INSERT INTO epochs (started_at) VALUES (now()) ON CONFLICT DO NOTHING;  -- another connection may be first
    END IF;
END $function$;
