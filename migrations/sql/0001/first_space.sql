-- The embedding space of the model that the product ships with. On a fresh installation with another model, `mnema
-- migrate` adds that model's space and makes it the active one.
SELECT add_embedding_space('minilm_l6_v2', 'all-MiniLM-L6-v2', 384, 16);
UPDATE embedding_spaces SET ready = active;
