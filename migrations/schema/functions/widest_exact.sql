CREATE OR REPLACE FUNCTION public.widest_exact()
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
RETURN 1152;
COMMENT ON FUNCTION widest_exact() IS 'Return the largest dimension of a vector that fits into a btree entry (2,704 bytes), from which an exact search reads
it.';
