-- Users see the last eight characters of an id and may type the first of those.
CREATE INDEX plans_by_shown_id ON plans (substr(id, 19));
CREATE INDEX decisions_by_shown_id ON decisions (substr(id, 19));
CREATE INDEX corrections_by_shown_id ON corrections (substr(id, 19));
CREATE INDEX invariants_by_shown_id ON invariants (substr(id, 19));
CREATE INDEX sandboxes_by_shown_id ON sandboxes (substr(id, 19));
CREATE INDEX validation_attachments_by_shown_id ON validation_attachments (substr(id, 19));
