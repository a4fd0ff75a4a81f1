CREATE OR REPLACE FUNCTION public.partition_families()
 RETURNS TABLE(tables text[], keys text[])
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
    VALUES ('{events}'::text[], '{id}'::text[]), ('{receipts,receipt_items}', '{id,receipt_id}');
$function$;
