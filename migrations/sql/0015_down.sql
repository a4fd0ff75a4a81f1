DROP FUNCTION signals_agree(text, jsonb);
