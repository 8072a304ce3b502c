-- Single-use actions that were given, not registered: one plan for each content of a name. The
-- claim outlives its plan.

CREATE TABLE given_action_uses (
    name TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    PRIMARY KEY (name, content_hash)
) {BY KEY};
