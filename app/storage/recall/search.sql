-- Statements of memory.query. Each calls a function of migrations/schema/functions that binds the tenant.
-- $1 tenant, $2 user or null, $3 categories, $4 row filters or null. A query text is as mark_language returns it.

-- name: recall
-- $5 query text, $6 query vector or null, $7 dense and $8 lexical candidates, $9 the number of best candidates whose
-- neighbouring turns are read, $10 the number whose relations are read, $11 the largest tenant that is compared
-- exactly, $12 with tokens, $13 with vectors, $14 chunks by vector and as many by words, $15 their categories. Returns
-- one row of columns.
SELECT * FROM recall_{space}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)

-- name: recall_at
-- $5 query text, $6 query vector or null, $7 dense and $8 lexical candidates, $9 the number of best candidates whose
-- neighbouring turns are read, $10 with tokens, $11 with vectors, $12 as_of or null, $13 valid_at or null, $14 the
-- categories that a memory may have now. Returns one row of the columns of `recall`.
SELECT * FROM recall_at_{space}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)

-- name: answer
-- $5 categories returned in full, $6 the limit of those memories, $7 the chosen ids, $8 the limit of related memories,
-- $9 the number of first chosen ones whose relations are read.
SELECT * FROM read_answer($1, $2, $3, $4, $5, $6, $7, $8, $9)

-- name: answer_at
-- $5 categories returned in full, $6 the limit of those memories, $7 the chosen ids, $8 to $10 the times and categories
-- of `recall_at`.
SELECT a.part, {columns} FROM read_answer_at($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) a

-- name: chunks
-- $5 the chosen ids, $6 the number of chunks before and after each one.
SELECT * FROM read_chunks($1, $2, $3, $4, $5, $6)

-- name: past_is_filled
-- $2 as_of.
SELECT past_is_filled($1, '{space}', $2)

-- name: instructions
-- $5 query vector or null, $6 the most instructions, $7 to $9 the times and categories of `recall_at`.
SELECT * FROM standing_instructions($1, $2, $3, $4, '{space}', $5, $6, $7, $8, $9)
