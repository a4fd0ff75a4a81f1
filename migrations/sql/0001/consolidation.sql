-- Consolidation: the pairs of memories that were compared, so that they are not compared again.

CREATE TABLE consolidation_pairs (
    tenant_id   uuid NOT NULL,
    low         uuid NOT NULL,                      -- the lower id of the pair
    high        uuid NOT NULL,
    score       real NOT NULL,                      -- rounded to two decimal places
    user_pk     bigint NOT NULL,
    same        boolean,                            -- null: the model gave no valid verdict
    checked_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, low, high, score),
    FOREIGN KEY (tenant_id, user_pk) REFERENCES users (tenant_id, user_pk) ON DELETE CASCADE
);
CREATE INDEX consolidation_pairs_of_user ON consolidation_pairs (tenant_id, user_pk, checked_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON consolidation_pairs TO mnema_app;
