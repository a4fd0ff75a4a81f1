CREATE OR REPLACE FUNCTION public.refuse_other_actor()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION 'the actor of a change cannot be replaced' USING ERRCODE = 'insufficient_privilege';
END $function$;
COMMENT ON FUNCTION refuse_other_actor() IS 'An actor can be taken from a row, but not replaced.';
