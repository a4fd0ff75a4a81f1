DROP FUNCTION store_lies_in, store_labels, store_matches, store_compares;
DROP TABLE store_vectors, store_items;
