CREATE OR REPLACE FUNCTION public.number_above(p_up_to bigint)
 RETURNS smallint
 LANGUAGE sql
 STABLE
RETURN (GREATEST((present_epoch() >> 48), ((p_up_to >> 48) + 1)))::smallint;
COMMENT ON FUNCTION number_above(bigint) IS 'Return the number that a residence needs, so that the tenant''s stamps here are above `p_up_to`.';
