CREATE OR REPLACE FUNCTION public.agent_key(p_agent text)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN COALESCE(hashtextextended(p_agent, (0)::bigint), (0)::bigint);
COMMENT ON FUNCTION agent_key(text) IS 'Return the key of an agent in memory_counts.';
