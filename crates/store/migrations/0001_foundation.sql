-- Columns are TEXT, BIGINT and {BYTES}; times are UTC microseconds, ids ULID text, bodies JSON.

CREATE TABLE operations (
    id TEXT NOT NULL PRIMARY KEY,
    label TEXT NOT NULL,
    result TEXT,
    at BIGINT NOT NULL
) {BY KEY};

CREATE TABLE streams (
    id TEXT NOT NULL PRIMARY KEY,
    head_seq BIGINT NOT NULL,
    head_hash TEXT NOT NULL
) {BY KEY};

CREATE TABLE events (
    seq {SEQUENCE},
    {TRANSACTION}
    stream TEXT NOT NULL REFERENCES streams (id),
    stream_seq BIGINT NOT NULL,
    kind TEXT NOT NULL,
    v BIGINT NOT NULL,
    at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    payload TEXT,
    payload_hash TEXT NOT NULL,
    prev_hash TEXT NOT NULL,
    hash TEXT NOT NULL,
    UNIQUE (stream, stream_seq)
);

CREATE TABLE actions (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE plans (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    action TEXT NOT NULL,
    phase TEXT NOT NULL,
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE nodes (
    node TEXT NOT NULL PRIMARY KEY,
    claims BIGINT NOT NULL
);

-- A row stays when its run is given back: the epoch must never start again.
CREATE TABLE runs (
    plan_id TEXT NOT NULL PRIMARY KEY,
    phase TEXT NOT NULL,
    owner TEXT,
    node TEXT NOT NULL,
    counts BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    claimed_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);

CREATE INDEX runs_by_node ON runs (node, owner);

-- Likewise: a free lock keeps its epoch.
CREATE TABLE locks (
    name TEXT NOT NULL PRIMARY KEY,
    owner TEXT,
    node TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    holds BIGINT NOT NULL,
    acquired_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);

CREATE INDEX locks_by_owner ON locks (owner);

CREATE TABLE blobs (
    hash TEXT NOT NULL PRIMARY KEY,
    size BIGINT NOT NULL,
    place TEXT NOT NULL,
    content {BYTES},
    touched_at BIGINT NOT NULL
);

CREATE TABLE blob_chunks (
    hash TEXT NOT NULL,
    number BIGINT NOT NULL,
    content {BYTES} NOT NULL,
    touched_at BIGINT NOT NULL,
    PRIMARY KEY (hash, number)
);

CREATE TABLE blob_references (
    hash TEXT NOT NULL REFERENCES blobs (hash),
    holder TEXT NOT NULL,
    PRIMARY KEY (hash, holder)
) {BY KEY};

CREATE INDEX blob_references_by_holder ON blob_references (holder);
