-- Epochs: the order of transactions over the whole life of the data. This file alone may read transaction ids.
--
-- A transaction id belongs to a PostgreSQL cluster: a new cluster counts from the start again, so an id that a dump
-- brought along says nothing beside the ids of now. Therefore nothing stores or returns an id. A row holds a stamp: the
-- number of the epoch in its upper bits, and the id in the lower 48. An epoch is the time that the data spend in one
-- database of one cluster; each later one has a higher number. So stamps rise over all restores, and two transactions
-- never share one.
CREATE TABLE epochs (                               -- of the installation, not of a tenant
    number      smallint PRIMARY KEY,
    id          uuid NOT NULL DEFAULT gen_random_uuid(),  -- two restores of one dump have the same number
    database    text NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT (started_at) ON epochs TO mnema_app;

-- Return what tells this database from its copies. A dump that is restored gets another one, in the same cluster too. A
-- standby, a promoted standby and a physical backup keep it: there the ids go on.
CREATE FUNCTION database_identity() RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_cluster text;
BEGIN
    BEGIN
        v_cluster := (SELECT system_identifier FROM pg_control_system());
    EXCEPTION WHEN insufficient_privilege OR undefined_function OR feature_not_supported THEN
        v_cluster := 'unknown';  -- a managed PostgreSQL may refuse to tell; the ids of the objects mostly differ too
    END;
    RETURN concat_ws('.', v_cluster, (SELECT oid FROM pg_database WHERE datname = current_database()),
                     'public.epochs'::regclass::oid);
END $$;
GRANT EXECUTE ON FUNCTION database_identity() TO mnema_app;

-- Nobody chooses an epoch: a new one is that of this database. There is none as long as the last one is.
CREATE FUNCTION number_epoch() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_last epochs := (SELECT e FROM epochs e ORDER BY number DESC LIMIT 1);
BEGIN
    IF v_last.database = database_identity() THEN RETURN NULL; END IF;
    new.number := coalesce(v_last.number, 0) + 1;
    new.database := database_identity();
    RETURN new;
END $$;
CREATE TRIGGER epochs_numbered BEFORE INSERT ON epochs FOR EACH ROW EXECUTE FUNCTION number_epoch();
INSERT INTO epochs (started_at) VALUES (now());

-- Begin the epoch of this database, if the last one is another database's. Every new connection of the server calls it
-- before anything else, so no transaction of a restored database has a stamp of the epoch before.
CREATE FUNCTION begin_epoch() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT e.database FROM epochs e ORDER BY e.number DESC LIMIT 1) IS DISTINCT FROM database_identity() THEN
        INSERT INTO epochs (started_at) VALUES (now()) ON CONFLICT DO NOTHING;  -- another connection may be first
    END IF;
END $$;
GRANT EXECUTE ON FUNCTION begin_epoch() TO mnema_app;

-- Return the part of a stamp that the present epoch gives.
CREATE FUNCTION present_epoch() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT e.number::bigint << 48 FROM public.epochs e ORDER BY e.number DESC LIMIT 1);
END $$;
GRANT EXECUTE ON FUNCTION present_epoch() TO mnema_app;

-- Keep the present epoch in a setting until the transaction ends.
CREATE FUNCTION keep_epoch() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN set_config('app.epoch', public.present_epoch()::text, true) <> '';
END $$;
GRANT EXECUTE ON FUNCTION keep_epoch() TO mnema_app;

-- Return the stamp of this transaction. Each row that is written asks for it, so a transaction of many rows calls
-- keep_epoch first. One expression, so that PostgreSQL calls no function.
CREATE FUNCTION transaction_stamp() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('app.epoch', true), '')::bigint, public.present_epoch())
           | pg_current_xact_id()::text::bigint;
$$;
GRANT EXECUTE ON FUNCTION transaction_stamp() TO mnema_app;

-- Return the present epoch, and the stamp below which every transaction has ended, whatever epoch it is of.
CREATE FUNCTION settled(OUT epoch uuid, OUT stamp bigint) LANGUAGE sql STABLE BEGIN ATOMIC
    SELECT e.id, e.number::bigint << 48 | pg_snapshot_xmin(pg_current_snapshot())::text::bigint
    FROM epochs e ORDER BY e.number DESC LIMIT 1;
END;
GRANT EXECUTE ON FUNCTION settled() TO mnema_app;
