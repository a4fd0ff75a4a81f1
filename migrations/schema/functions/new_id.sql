CREATE OR REPLACE FUNCTION public.new_id()
 RETURNS uuid
 LANGUAGE sql
 PARALLEL SAFE
RETURN (((lpad(to_hex(((EXTRACT(epoch FROM clock_timestamp()) * (1000)::numeric))::bigint), 12, '0'::text) || '7'::text) || substr(replace((gen_random_uuid())::text, '-'::text, ''::text), 14)))::uuid;
COMMENT ON FUNCTION new_id() IS 'Return a new UUIDv7, which begins with the milliseconds of now (PostgreSQL has uuidv7() from 18 on).';
