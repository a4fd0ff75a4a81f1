CREATE OR REPLACE FUNCTION public.first_id(p_time timestamp with time zone)
 RETURNS uuid
 LANGUAGE sql
 STABLE PARALLEL SAFE STRICT
RETURN ((lpad(to_hex(((EXTRACT(epoch FROM p_time) * (1000)::numeric))::bigint), 12, '0'::text) || repeat('0'::text, 20)))::uuid;
COMMENT ON FUNCTION first_id(timestamp with time zone) IS 'Return the smallest UUIDv7 of a time.';
