-- How many plans of a project or of an action are in which state, told by an index alone. A plan's
-- state stands beside each of its projects for that; it changes with the plan.

ALTER TABLE plan_projects ADD COLUMN state TEXT NOT NULL DEFAULT '';

CREATE INDEX plan_projects_by_state ON plan_projects (project, state, created_at DESC, plan_id DESC);
CREATE INDEX plans_by_action_state ON plans (action, state, created_at DESC, id DESC);
