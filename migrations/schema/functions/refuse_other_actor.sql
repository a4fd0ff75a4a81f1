CREATE OR REPLACE FUNCTION public.refuse_other_actor()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION 'the actor of a change cannot be replaced' USING ERRCODE = 'insufficient_privilege';
END $function$;
