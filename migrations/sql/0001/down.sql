-- Drop everything that the baseline made, and the tables and functions of embedding spaces that were added since.
DO $$
DECLARE
    v_tables text := (
        SELECT string_agg(oid::regclass::text, ', ') FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
          AND pg_get_userbyid(relowner) IN ('mnema_owner', 'mnema_partitions') AND relname <> 'alembic_version');
BEGIN
    EXECUTE format('DROP TABLE %s CASCADE', v_tables);  -- and the functions that take a row of one
    EXECUTE (
        SELECT format('DROP FUNCTION %s', string_agg(oid::regprocedure::text, ', ')) FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace
          AND pg_get_userbyid(proowner) IN ('mnema_owner', 'mnema_search', 'mnema_auth', 'mnema_jobs',
              'mnema_partitions'));
END $$;
REVOKE SELECT ON alembic_version FROM mnema_app;
DROP SCHEMA partitions;
REVOKE USAGE ON SCHEMA public FROM mnema_app, mnema_search, mnema_auth, mnema_jobs, mnema_partitions;
ALTER DEFAULT PRIVILEGES FOR ROLE mnema_owner GRANT EXECUTE ON FUNCTIONS TO PUBLIC;
