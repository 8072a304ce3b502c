-- Plans at work: their sandboxes, what was called and changed in them, states to go back to, what
-- was planned and checked, and how the changes were brought to where they belong.

-- `number` is the order in which a plan's sandboxes were made, the discarded ones included.
CREATE TABLE sandboxes (
    id TEXT {BYTEWISE} NOT NULL PRIMARY KEY,
    tail TEXT {BYTEWISE} NOT NULL,
    plan_id TEXT NOT NULL REFERENCES plans (id),
    number BIGINT NOT NULL,
    resource_id TEXT NOT NULL,
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (plan_id, number)
);

CREATE INDEX sandboxes_by_tail ON sandboxes (tail);
CREATE INDEX sandboxes_by_time ON sandboxes (created_at DESC, id DESC);
CREATE INDEX sandboxes_by_state ON sandboxes (state, created_at DESC, id DESC);
CREATE UNIQUE INDEX sandboxes_in_use ON sandboxes (plan_id, resource_id)
    WHERE state <> 'discarded';

CREATE TABLE changesets (
    id TEXT NOT NULL PRIMARY KEY,
    plan_id TEXT NOT NULL REFERENCES plans (id),
    number BIGINT NOT NULL,
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),
    attempt BIGINT NOT NULL,
    step BIGINT,
    state TEXT NOT NULL,
    entries BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    closed_at BIGINT,
    UNIQUE (plan_id, number)
);

CREATE INDEX changesets_by_sandbox ON changesets (sandbox_id);

-- A change that was undone names the checkpoint that was gone back to, which may be gone since.
CREATE TABLE change_entries (
    changeset_id TEXT NOT NULL REFERENCES changesets (id),
    sequence BIGINT NOT NULL,
    plan_id TEXT NOT NULL REFERENCES plans (id),
    call_number BIGINT NOT NULL,
    undone_by TEXT,
    body TEXT NOT NULL,
    PRIMARY KEY (changeset_id, sequence)
) {BY KEY};

CREATE INDEX change_entries_by_call ON change_entries (plan_id, call_number);

CREATE TABLE tool_calls (
    id TEXT NOT NULL PRIMARY KEY,
    plan_id TEXT NOT NULL REFERENCES plans (id),
    number BIGINT NOT NULL,
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id),
    attempt BIGINT NOT NULL,
    step BIGINT,
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    process TEXT,
    output TEXT,
    error TEXT,
    tree_after TEXT,
    started_at BIGINT NOT NULL,
    finished_at BIGINT,
    undone_by TEXT,
    UNIQUE (plan_id, number)
);

CREATE INDEX tool_calls_by_step ON tool_calls (plan_id, attempt, step);
CREATE INDEX tool_calls_by_sandbox ON tool_calls (sandbox_id);
CREATE INDEX tool_calls_unfinished ON tool_calls (plan_id, number) WHERE state = 'invoked';

CREATE TABLE checkpoints (
    id TEXT NOT NULL PRIMARY KEY,
    plan_id TEXT NOT NULL REFERENCES plans (id),
    number BIGINT NOT NULL,
    undone_by TEXT,
    body TEXT NOT NULL,
    UNIQUE (plan_id, number)
);

CREATE TABLE strategies (
    plan_id TEXT NOT NULL REFERENCES plans (id),
    number BIGINT NOT NULL,
    hash TEXT NOT NULL,
    body TEXT NOT NULL,
    approved_by TEXT,
    approved_at BIGINT,
    PRIMARY KEY (plan_id, number)
);

CREATE TABLE validation_runs (
    plan_id TEXT NOT NULL REFERENCES plans (id),
    attempt BIGINT NOT NULL,
    round BIGINT NOT NULL,
    summary TEXT NOT NULL,
    stored_at BIGINT NOT NULL,
    PRIMARY KEY (plan_id, attempt, round)
);

CREATE TABLE applies (
    id TEXT NOT NULL PRIMARY KEY,
    plan_id TEXT NOT NULL REFERENCES plans (id),
    number BIGINT NOT NULL,
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    version BIGINT NOT NULL,
    UNIQUE (plan_id, number)
);

CREATE UNIQUE INDEX applies_unfinished ON applies (plan_id)
    WHERE state IN ('preparing', 'decided');
