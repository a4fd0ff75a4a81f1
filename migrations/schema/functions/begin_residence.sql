CREATE OR REPLACE FUNCTION public.begin_residence(p_tenant uuid, p_residence_epoch bigint, p_epoch uuid, p_up_to bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_number smallint := number_above(p_up_to);
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true), pg_advisory_xact_lock(home_lock(p_tenant));
    IF EXISTS (SELECT FROM residences r
               WHERE r.tenant_id = p_tenant AND r.state = 'home' AND r.epoch = p_residence_epoch) THEN
        RETURN;
    END IF;
    INSERT INTO residences (tenant_id, state, epoch, number) VALUES (p_tenant, 'home', p_residence_epoch, v_number)
        ON CONFLICT (tenant_id) DO UPDATE SET state = 'home', epoch = excluded.epoch, number = excluded.number,
            changed_at = clock_timestamp()
        WHERE residences.state = 'away' AND residences.epoch < excluded.epoch;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a later residence of the tenant % is known here', p_tenant USING ERRCODE = 'MN421';
    END IF;
    UPDATE cluster SET highest_number = greatest(highest_number, v_number);
    INSERT INTO tenant_epochs (tenant_id, epoch, up_to) VALUES (p_tenant, p_epoch, p_up_to)
        ON CONFLICT (tenant_id, epoch) DO UPDATE SET up_to = excluded.up_to;
END $function$;
COMMENT ON FUNCTION begin_residence(uuid,bigint,uuid,bigint) IS 'Begin the tenant''s residence here, with what `end_residence` returned where the tenant was at home. Idempotent.
Raises MN421 if a later residence is known here.';
