CREATE OR REPLACE FUNCTION public.purged_meanwhile()
 RETURNS text
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION 'a related memory was purged' USING ERRCODE = 'serialization_failure';
END $function$;
COMMENT ON FUNCTION purged_meanwhile() IS 'Fail the statement: a memory that a new one is related to was purged meanwhile, so the caller must start again.';
