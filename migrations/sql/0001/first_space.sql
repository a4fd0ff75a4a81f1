-- The embedding space of the model that the product ships with. `mnema migrate` replaces it on a fresh installation that is
-- configured for another model.
SELECT add_embedding_space('minilm_l6_v2', 'all-MiniLM-L6-v2', 384, 16);
UPDATE embedding_spaces SET ready = active;
