-- The bodies of before.

-- Nobody chooses an epoch: a new one is that of this database. There is none as long as the last one is.
CREATE OR REPLACE FUNCTION number_epoch() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_last epochs := (SELECT e FROM epochs e ORDER BY number DESC LIMIT 1);
BEGIN
    IF v_last.database = database_identity() THEN RETURN NULL; END IF;
    new.number := coalesce(v_last.number, 0) + 1;
    new.database := database_identity();
    RETURN new;
END $$;

-- Keep the present epoch in a setting until the transaction ends.
CREATE OR REPLACE FUNCTION keep_epoch() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN set_config('app.epoch', public.present_epoch()::text, true) <> '';
END $$;

-- Return the present epoch, and the stamp below which every transaction has ended, whatever epoch it is of.
CREATE OR REPLACE FUNCTION settled(OUT epoch uuid, OUT stamp bigint) LANGUAGE sql STABLE BEGIN ATOMIC
    SELECT e.id, e.number::bigint << 48 | pg_snapshot_xmin(pg_current_snapshot())::text::bigint
    FROM epochs e ORDER BY e.number DESC LIMIT 1;
END;
