-- name: answer
-- Columns and not JSON: a question reads more facts than it tells.
SELECT place, (fact).id, (fact).user_id, (fact).thread_id, (fact).topic_key, (fact).kind, (fact).rank, (fact).value,
       (fact).category, (fact).source_message_id, (fact).created_at, (fact).updated_at, (fact).doubted_at
FROM answer_facts($1, $2, $3, $4, $5, $6)

-- name: touchable
SELECT thread_id, topic_key, rank, value, latest FROM touchable_facts($1, $2, $3, $4, $5, $6)

-- name: get
SELECT fact_json(f) AS fact FROM facts f
WHERE f.tenant_id = $1 AND f.id = $2 AND f.removed_at IS NULL AND ($3::text[] IS NULL OR f.category = ANY ($3))

-- name: get_many
SELECT fact_json(f) AS fact FROM facts f WHERE f.tenant_id = $1 AND f.id = ANY ($2)

-- name: page
-- By topic, thread and rank. $7 is the last row of the previous page, or null.
SELECT fact_json(f) AS fact FROM facts f
WHERE f.tenant_id = $1 AND f.removed_at IS NULL AND ($2::text[] IS NULL OR f.category = ANY ($2))
  AND f.user_id = $3 AND ($4::text IS NULL OR f.thread_id = $4) AND ($5::text IS NULL OR f.topic_key = $5)
  AND ($8::int IS NULL OR f.rank = $8)
  AND ($7::text[] IS NULL OR (f.topic_key, coalesce(f.thread_id, ''), coalesce(f.rank, 0), f.id::text)
                             > (($7::text[])[1], ($7::text[])[2], ($7::text[])[3]::int, ($7::text[])[4]))
ORDER BY f.topic_key, coalesce(f.thread_id, ''), coalesce(f.rank, 0), f.id::text LIMIT $6

-- name: at_rank
SELECT fact_json(f) AS fact FROM facts f
WHERE f.tenant_id = $1 AND f.removed_at IS NULL AND ($2::text[] IS NULL OR f.category = ANY ($2))
  AND f.user_id = $3 AND thread_place(f.thread_id) = thread_place($4) AND f.topic_key = $5 AND f.rank = $6

-- name: history
SELECT h.id, h.memory_id, h.event, h.old_ref, h.new_ref, h.actor, h.meta, h.ts
FROM facts f JOIN history h ON h.tenant_id = f.tenant_id AND h.memory_id = f.id::text
WHERE f.tenant_id = $1 AND f.id = $2 AND ($3::text[] IS NULL OR f.category = ANY ($3))
  AND ($4::timestamptz IS NULL OR (h.ts, h.id) < ($4, $5)) ORDER BY h.ts DESC, h.id DESC LIMIT $6

-- name: purge
SELECT purge_facts($1, $2, $3, $4, $5, $6) AS count
