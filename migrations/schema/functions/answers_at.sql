CREATE OR REPLACE FUNCTION public.answers_at(m memories, p_as_of timestamp with time zone, p_valid_at timestamp with time zone)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN ((((m).state = 'active'::text) OR (((m).state = 'superseded'::text) AND (p_valid_at IS NOT NULL))) AND COALESCE(((m).expires_at > LEAST(p_as_of, now())), true) AND ((p_valid_at IS NULL) OR (COALESCE(((m).valid_from <= p_valid_at), true) AND COALESCE(((m).valid_to > p_valid_at), true))));
COMMENT ON FUNCTION answers_at(memories,timestamp with time zone,timestamp with time zone) IS 'Return whether a memory, as it was at p_as_of, answers a question: it was active and not past its expires_at. About
what was so at p_valid_at (NULL: no such question) a superseded one answers too, if its span covers that time.';
