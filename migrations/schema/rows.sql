-- The rows of a fresh database.
INSERT INTO embedding_spaces (name, model, dimension, active, ready) VALUES ('minilm_l6_v2', 'all-MiniLM-L6-v2', 384, true, true);
