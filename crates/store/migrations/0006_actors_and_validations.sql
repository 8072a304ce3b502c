-- Who does the work, what its results are checked with, and which resources that concerns.

CREATE TABLE actors (
    name TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    definition TEXT NOT NULL,
    hash TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version BIGINT NOT NULL
);

CREATE TABLE validations (
    name TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    definition TEXT NOT NULL,
    hash TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version BIGINT NOT NULL
);

-- The target of a direct attachment is the empty text. A project is meant by its name, a plan by
-- its id.
CREATE TABLE validation_attachments (
    id TEXT {BYTEWISE} NOT NULL PRIMARY KEY,
    tail TEXT {BYTEWISE} NOT NULL,
    validation TEXT NOT NULL REFERENCES validations (name),
    resource_id TEXT NOT NULL REFERENCES resources (id),
    scope TEXT NOT NULL,
    target TEXT NOT NULL,
    args TEXT NOT NULL,
    args_hash TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (validation, resource_id, scope, target, args_hash),
    CHECK (scope IN ('direct', 'project', 'plan') AND (scope = 'direct') = (target = ''))
);

CREATE INDEX validation_attachments_by_tail ON validation_attachments (tail);
CREATE INDEX validation_attachments_by_resource ON validation_attachments (resource_id);
CREATE INDEX validation_attachments_by_target ON validation_attachments (scope, target);
