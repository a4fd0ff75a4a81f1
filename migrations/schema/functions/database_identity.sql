CREATE OR REPLACE FUNCTION public.database_identity()
 RETURNS text
 LANGUAGE plpgsql
 STABLE
AS $function$
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
END $function$;
COMMENT ON FUNCTION database_identity() IS 'Return what tells this database from its copies. A dump that is restored gets another one, in the same cluster too. A
standby, a promoted standby and a physical backup keep it: there the ids go on.';
