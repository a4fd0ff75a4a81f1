-- Statements of memory.query; the functions are in migrations/schema/functions. Both bind the tenant.
-- $1 tenant, $2 user or null, $3 categories, $4 row filters or null.

-- name: recall
-- $5 query text, $6 query vector or null, $7 dense and $8 lexical candidates, $9 of how many best the turns beside, $10 of how many
-- best the relations, $11 up to how many memories of a tenant exactly, $12 with tokens, $13 with vectors. One row of columns.
SELECT * FROM recall_{space}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)

-- name: answer
-- $5 categories that come whole, $6 memories of those at most, $7 the chosen, $8 related ones at most.
SELECT * FROM read_answer($1, $2, $3, $4, $5, $6, $7, $8)
