-- Spaces stay, and are filled by nobody but servers of their model.
DROP FUNCTION drop_embedding_space;
ALTER TABLE embedding_spaces DROP COLUMN ready;
