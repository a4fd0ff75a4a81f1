-- Stamps of tenants that move between clusters. As 0001/epochs.sql, this file may read transaction ids.
--
-- A move copies a tenant's stamps as they are. What the tenant writes afterwards must have higher ones, so each
-- residence has a number below which the tenant has no stamp here. Other tenants of the cluster keep their stamps: a
-- higher epoch for all would change the order of transactions that have begun in the lower one.

-- Nobody chooses an epoch: a new one is that of this database. There is none as long as the last one is. A new one is
-- above the numbers of all residences.
CREATE OR REPLACE FUNCTION number_epoch() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_last epochs := (SELECT e FROM epochs e ORDER BY number DESC LIMIT 1);
BEGIN
    IF v_last.database = database_identity() THEN RETURN NULL; END IF;
    new.number := greatest(v_last.number, (SELECT c.highest_number FROM cluster c), 0) + 1;
    new.database := database_identity();
    RETURN new;
END $$;

-- Keep the present epoch in a setting until the transaction ends. A residence may have set a higher one.
CREATE OR REPLACE FUNCTION keep_epoch() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN set_config('app.epoch', greatest(nullif(current_setting('app.epoch', true), '')::bigint,
                                            public.present_epoch())::text, true) <> '';
END $$;

-- Let this transaction have stamps from the number of a residence on.
CREATE FUNCTION raise_stamps(p_number smallint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN set_config('app.epoch', greatest(p_number::bigint << 48, public.present_epoch())::text, true) <> '';
END $$;
GRANT EXECUTE ON FUNCTION raise_stamps(smallint) TO mnema_app;

-- Return the present epoch, and the stamp below which every transaction of this tenant has ended, whatever epoch it is
-- of.
CREATE OR REPLACE FUNCTION settled(OUT epoch uuid, OUT stamp bigint) LANGUAGE sql STABLE BEGIN ATOMIC
    SELECT e.id, greatest(e.number, (
            SELECT r.number FROM residences r
            WHERE r.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid))::bigint << 48
        | pg_snapshot_xmin(pg_current_snapshot())::text::bigint
    FROM epochs e ORDER BY e.number DESC LIMIT 1;
END;

-- Return the present epoch, and a stamp above all that the tenant has here. It is asked when the tenant has left.
CREATE FUNCTION last_stamp(p_number smallint, OUT epoch uuid, OUT stamp bigint) LANGUAGE sql STABLE BEGIN ATOMIC
    SELECT e.id, greatest(e.number, p_number)::bigint << 48 | pg_snapshot_xmax(pg_current_snapshot())::text::bigint
    FROM epochs e ORDER BY e.number DESC LIMIT 1;
END;

-- Return the number that a residence needs, so that the tenant's stamps here are above `p_up_to`.
CREATE FUNCTION number_above(p_up_to bigint) RETURNS smallint LANGUAGE sql STABLE
    RETURN greatest(public.present_epoch() >> 48, (p_up_to >> 48) + 1)::smallint;
