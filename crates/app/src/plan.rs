//! Handlers of plans, one file per verb.

mod use_action;
