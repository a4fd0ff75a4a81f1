CREATE OR REPLACE FUNCTION public.number_epoch()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
DECLARE
    v_last epochs := (SELECT e FROM epochs e ORDER BY number DESC LIMIT 1);
BEGIN
    IF v_last.database = database_identity() THEN RETURN NULL; END IF;
    new.number := greatest(v_last.number, (SELECT c.highest_number FROM cluster c), 0) + 1;
    new.database := database_identity();
    RETURN new;
END $function$;
COMMENT ON FUNCTION number_epoch() IS 'Nobody chooses an epoch: a new one is that of this database. There is none as long as the last one is. A new one is
above the numbers of all residences.';
