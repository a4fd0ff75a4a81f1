DROP FUNCTION standing_instructions(
    uuid, text, text[], jsonb, text, halfvec, int, timestamptz, timestamptz, text[]);
DROP INDEX memories_instructions;
