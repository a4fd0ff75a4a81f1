CREATE OR REPLACE FUNCTION public.begin_epoch()
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    IF (SELECT e.database FROM epochs e ORDER BY e.number DESC LIMIT 1) IS DISTINCT FROM database_identity() THEN
        INSERT INTO epochs (started_at) VALUES (now()) ON CONFLICT DO NOTHING;  -- another connection may be first
    END IF;
END $function$;
COMMENT ON FUNCTION begin_epoch() IS 'Begin the epoch of this database, if the last one is another database''s. Every new connection of the server calls it
before anything else, so no transaction of a restored database has a stamp of the epoch before.';
