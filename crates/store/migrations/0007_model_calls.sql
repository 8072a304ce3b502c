-- Each time a model was asked: what, what came of it and what it used up. `conversation` names what
-- is gone on with; `ordinal` counts the calls of one actor; `after_call` is the newest call of a
-- tool when it was asked. `tokens` and `usd` are what was reserved until it has ended.
CREATE TABLE model_calls (
    id TEXT NOT NULL PRIMARY KEY,
    plan_id TEXT NOT NULL REFERENCES plans (id),
    number BIGINT NOT NULL,
    actor TEXT NOT NULL,
    ordinal BIGINT NOT NULL,
    conversation TEXT NOT NULL,
    after_call BIGINT NOT NULL,
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    ended TEXT,
    tokens BIGINT NOT NULL,
    usd DOUBLE PRECISION NOT NULL,
    started_at BIGINT NOT NULL,
    finished_at BIGINT,
    undone_by TEXT,
    UNIQUE (plan_id, number),
    UNIQUE (plan_id, actor, ordinal)
);

CREATE INDEX model_calls_by_conversation ON model_calls (plan_id, conversation, number);
CREATE INDEX model_calls_unfinished ON model_calls (plan_id, number) WHERE state = 'asked';
