CREATE OR REPLACE FUNCTION public.refuse_copy()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    IF NOT EXISTS (SELECT FROM public.cluster c WHERE c.keeps_directory) THEN
        RAISE EXCEPTION 'the table % is written in another cluster', TG_TABLE_NAME USING ERRCODE = 'MN422';
    END IF;
    RETURN NULL;
END $function$;
