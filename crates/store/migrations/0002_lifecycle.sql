-- Everything around a plan: projects, decisions, rules, errors, messages.
-- `tail` is an id read backwards, so that its last characters find it as fast as its first.
-- Texts without a limit are unique by their hash: an index entry has one.

ALTER TABLE actions ADD COLUMN uses BIGINT NOT NULL DEFAULT 0;
ALTER TABLE actions ADD COLUMN single_use BIGINT NOT NULL DEFAULT 0;
UPDATE actions SET uses = (SELECT count(*) FROM plans WHERE plans.action = actions.name);

{PLAN IDS BYTEWISE}
ALTER TABLE plans ADD COLUMN tail TEXT {BYTEWISE} NOT NULL DEFAULT '';

CREATE INDEX plans_by_tail ON plans (tail);
CREATE INDEX plans_by_time ON plans (created_at DESC, id DESC);
CREATE INDEX plans_by_phase ON plans (phase, state, created_at DESC, id DESC);
CREATE INDEX plans_by_state ON plans (state, created_at DESC, id DESC);
CREATE INDEX plans_by_action ON plans (action, created_at DESC, id DESC);

-- A plan remembers its projects by name: it may outlive them.
CREATE TABLE plan_projects (
    plan_id TEXT NOT NULL REFERENCES plans (id),
    project TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (plan_id, project)
) {BY KEY};

CREATE INDEX plan_projects_by_project ON plan_projects (project, created_at DESC, plan_id DESC);

CREATE TABLE projects (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    body TEXT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE resources (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    path_hash TEXT NOT NULL UNIQUE,
    body TEXT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE project_resources (
    project_id TEXT NOT NULL REFERENCES projects (id),
    resource_id TEXT NOT NULL REFERENCES resources (id),
    position BIGINT NOT NULL,
    PRIMARY KEY (project_id, resource_id)
) {BY KEY};

CREATE INDEX project_resources_by_resource ON project_resources (resource_id);

CREATE TABLE decisions (
    id TEXT {BYTEWISE} NOT NULL PRIMARY KEY,
    tail TEXT {BYTEWISE} NOT NULL,
    plan_id TEXT NOT NULL REFERENCES plans (id),
    sequence BIGINT NOT NULL,
    decision_type TEXT NOT NULL,
    superseded BIGINT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (plan_id, sequence)
);

CREATE INDEX decisions_by_tail ON decisions (tail);

CREATE TABLE decision_influences (
    from_id TEXT NOT NULL REFERENCES decisions (id),
    to_id TEXT NOT NULL REFERENCES decisions (id),
    plan_id TEXT NOT NULL REFERENCES plans (id),
    PRIMARY KEY (from_id, to_id)
) {BY KEY};

CREATE INDEX decision_influences_by_target ON decision_influences (to_id);
CREATE INDEX decision_influences_by_plan ON decision_influences (plan_id);

CREATE TABLE corrections (
    id TEXT {BYTEWISE} NOT NULL PRIMARY KEY,
    tail TEXT {BYTEWISE} NOT NULL,
    plan_id TEXT NOT NULL REFERENCES plans (id),
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE INDEX corrections_by_tail ON corrections (tail);
CREATE INDEX corrections_by_plan ON corrections (plan_id, created_at, id);

-- The target of a global rule is the empty text.
CREATE TABLE invariants (
    id TEXT {BYTEWISE} NOT NULL PRIMARY KEY,
    tail TEXT {BYTEWISE} NOT NULL,
    scope TEXT NOT NULL,
    target TEXT NOT NULL,
    text_hash TEXT NOT NULL,
    body TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (scope, target, text_hash)
);

CREATE INDEX invariants_by_tail ON invariants (tail);

CREATE TABLE automation_profiles (
    name TEXT NOT NULL PRIMARY KEY,
    body TEXT NOT NULL,
    version BIGINT NOT NULL
);

CREATE TABLE errors (
    id TEXT NOT NULL PRIMARY KEY,
    plan_id TEXT NOT NULL REFERENCES plans (id),
    identity TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    occurrences BIGINT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (plan_id, identity),
    UNIQUE (plan_id, sequence)
);

CREATE TABLE outcomes (
    operation TEXT NOT NULL PRIMARY KEY,
    successes BIGINT NOT NULL,
    failures BIGINT NOT NULL
) {BY KEY};

CREATE TABLE plan_messages (
    id TEXT NOT NULL PRIMARY KEY,
    plan_id TEXT NOT NULL REFERENCES plans (id),
    sequence BIGINT NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    taken_at BIGINT,
    UNIQUE (plan_id, sequence)
);
