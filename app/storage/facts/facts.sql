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
-- By topic, thread and rank. $7 is the last row of the previous page, or null. $9: the fact must match as a memory with
-- the fact's own fields, whose text is the value; null: any.
SELECT fact_json(f) AS fact FROM facts f
WHERE f.tenant_id = $1 AND f.removed_at IS NULL AND ($2::text[] IS NULL OR f.category = ANY ($2))
  AND f.user_id = $3 AND ($4::text IS NULL OR f.thread_id = $4) AND ($5::text IS NULL OR f.topic_key = $5)
  AND ($8::int IS NULL OR f.rank = $8)
  AND ($9::jsonb IS NULL
       OR memory_matches(jsonb_populate_record(NULL::memories, to_jsonb(f) || jsonb_build_object('text', f.value)), $9))
  AND ($7::text[] IS NULL OR (f.topic_key, coalesce(f.thread_id, ''), coalesce(f.rank, 0), f.id::text)
                             > (($7::text[])[1], ($7::text[])[2], ($7::text[])[3]::int, ($7::text[])[4]))
ORDER BY f.topic_key, coalesce(f.thread_id, ''), coalesce(f.rank, 0), f.id::text LIMIT $6

-- name: at_rank
SELECT fact_json(f) AS fact FROM facts f
WHERE f.tenant_id = $1 AND f.removed_at IS NULL AND ($2::text[] IS NULL OR f.category = ANY ($2))
  AND f.user_id = $3 AND thread_place(f.thread_id) = thread_place($4) AND f.topic_key = $5 AND f.rank = $6

-- name: former
-- The facts of the user $5, or the one with the id $6, as the history had them at $3 (null: as it has them now), counting
-- only what was stated until $4 (null: whenever). Within the thread $7, or in its place alone if $8. By topic, thread and
-- rank; $11 is the last row of the previous page, or null. $13: what the fact must match, as in `page`. An image has no
-- fields that were null. A purged or erased value has none. A doubt counts from its own time on, and another change that
-- kept the time of the statement from that of the change. History lacks the time at which a value was stated again, and
-- doubts of before it had any: the fact has the last of each.
SELECT w.id, w.user_id, w.thread_id, w.topic_key, w.kind, w.rank, w.value, w.category, w.source_message_id,
       s.created_at, w.updated_at, coalesce(w.doubted_at, d.unrecorded) AS doubted_at
FROM facts f
CROSS JOIN LATERAL (SELECT coalesce(least($3::timestamptz, $4::timestamptz), 'infinity') AS until) t
CROSS JOIN LATERAL (
    SELECT h.meta->'after' AS image FROM history h
    WHERE h.tenant_id = f.tenant_id AND h.memory_id = f.id::text AND h.meta ? 'after'
      AND ($3::timestamptz IS NULL OR h.ts <= $3)
      AND ($4::timestamptz IS NULL
           OR CASE WHEN h.meta->'before'->'created_at' IS DISTINCT FROM h.meta->'after'->'created_at'
                   THEN (h.meta->'after'->>'created_at')::timestamptz
                   WHEN h.meta->'before'->'doubted_at' IS DISTINCT FROM h.meta->'after'->'doubted_at'
                   THEN coalesce((h.meta->'after'->>'doubted_at')::timestamptz, h.ts)
                   ELSE h.ts END <= $4)
    ORDER BY h.ts DESC, h.id DESC LIMIT 1) l
CROSS JOIN LATERAL jsonb_populate_record(
    f, '{"thread_id": null, "rank": null, "source_message_id": null, "doubted_at": null, "removed_at": null}'
       || l.image) w
CROSS JOIN LATERAL (
    SELECT CASE WHEN f.doubted_at <= t.until AND NOT EXISTS (
        SELECT FROM history h WHERE h.tenant_id = f.tenant_id AND h.memory_id = f.id::text
            AND h.meta->'after' ? 'doubted_at') THEN f.doubted_at END AS unrecorded) d
CROSS JOIN LATERAL (
    SELECT CASE WHEN w.updated_at = f.updated_at AND f.created_at <= t.until THEN f.created_at ELSE w.created_at END
        AS created_at) s
WHERE f.tenant_id = $1 AND w.removed_at IS NULL
  AND ($2::text[] IS NULL OR (f.category = ANY ($2) AND w.category = ANY ($2)))
  AND ($5::text IS NULL OR f.user_id = $5) AND ($6::uuid IS NULL OR f.id = $6)
  AND CASE WHEN $8 THEN thread_place(w.thread_id) = thread_place($7) ELSE $7::text IS NULL OR w.thread_id = $7 END
  AND ($9::text IS NULL OR w.topic_key = $9) AND ($10::int IS NULL OR w.rank = $10)
  AND ($11::text[] IS NULL OR (w.topic_key, coalesce(w.thread_id, ''), coalesce(w.rank, 0), w.id::text)
                              > (($11::text[])[1], ($11::text[])[2], ($11::text[])[3]::int, ($11::text[])[4]))
  AND ($13::jsonb IS NULL OR memory_matches(jsonb_populate_record(
      NULL::memories, to_jsonb(w) || jsonb_build_object('text', w.value, 'created_at', s.created_at)), $13))
ORDER BY w.topic_key, coalesce(w.thread_id, ''), coalesce(w.rank, 0), w.id::text LIMIT $12

-- name: history
SELECT h.id, h.memory_id, h.event, h.old_ref, h.new_ref, h.actor, h.meta, h.ts
FROM facts f JOIN history h ON h.tenant_id = f.tenant_id AND h.memory_id = f.id::text
WHERE f.tenant_id = $1 AND f.id = $2 AND ($3::text[] IS NULL OR f.category = ANY ($3))
  AND ($4::timestamptz IS NULL OR (h.ts, h.id) < ($4, $5)) ORDER BY h.ts DESC, h.id DESC LIMIT $6

-- name: purge
SELECT purge_facts($1, $2, $3, $4, $5, $6) AS count
