CREATE TABLE cluster (
    only_row boolean NOT NULL DEFAULT true,
    name text NOT NULL,
    number smallint NOT NULL,
    keeps_directory boolean NOT NULL,
    highest_number smallint NOT NULL DEFAULT 0,
    draining boolean NOT NULL DEFAULT false,
    mover_seen_at timestamp with time zone,
    CONSTRAINT cluster_pkey PRIMARY KEY (only_row),
    CONSTRAINT cluster_name_check CHECK (length(name) >= 1 AND length(name) <= 63),
    CONSTRAINT cluster_number_check CHECK (number >= 1 AND number <= 4095),
    CONSTRAINT cluster_only_row_check CHECK (only_row)
);
