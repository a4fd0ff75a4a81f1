CREATE TABLE embedding_spaces (
    name text NOT NULL,
    model text NOT NULL,
    dimension integer NOT NULL,
    active boolean NOT NULL DEFAULT false,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    ready boolean NOT NULL DEFAULT false,
    CONSTRAINT embedding_spaces_pkey PRIMARY KEY (name),
    CONSTRAINT embedding_spaces_dimension_check CHECK (dimension >= 1 AND dimension <= 4000)
);

CREATE UNIQUE INDEX embedding_spaces_one_active ON embedding_spaces USING btree (active) WHERE active;
