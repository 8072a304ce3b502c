//! Actions: reusable, typed templates of work.
//!
//! An [`Action`] is a parsed YAML definition. This module runs the checks that need no registry,
//! file or model. [`argument`] defines its typed arguments.

pub mod argument;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::automation::ProfileName;
use crate::id::ActionId;
use crate::name::NamespacedName;
use crate::text_enum::text_enum;
use crate::time::Timestamp;

pub use argument::{Argument, ArgumentDeclarationError, ArgumentError, ArgumentType};

/// The longest a one-paragraph text may be, in bytes.
pub const DESCRIPTION_MAXIMUM: usize = 4 * 1024;
/// The longest any text of an action may be, in bytes.
pub const TEXT_MAXIMUM: usize = 64 * 1024;

/// A reusable template: the task, its actors, and the definition of done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Action {
    pub id: ActionId,
    pub name: NamespacedName,
    pub description: String,
    pub long_description: Option<String>,
    pub actors: Actors,
    /// For actors and users; only `checks` and required validations gate.
    pub definition_of_done: String,
    #[serde(default = "reusable_by_default")]
    pub reusable: bool,
    #[serde(default)]
    pub read_only: bool,
    #[serde(default)]
    pub state: ActionState,
    #[serde(default)]
    pub arguments: Vec<Argument>,
    pub automation_profile: Option<ProfileName>,
    #[serde(default)]
    pub invariants: Vec<String>,
    #[serde(default)]
    pub checks: Vec<Check>,
    #[serde(default)]
    pub budget: Budget,
    #[serde(default)]
    pub skills: Vec<NamespacedName>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Assigned by the store and checked on every update.
    pub version: i64,
}

fn reusable_by_default() -> bool {
    true
}

/// The actors by role and name. Names are resolved at preflight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Actors {
    pub strategy_actor: NamespacedName,
    pub execution_actor: NamespacedName,
    pub estimation_actor: Option<NamespacedName>,
    pub review_actor: Option<NamespacedName>,
    pub apply_actor: Option<NamespacedName>,
    pub invariant_actor: Option<NamespacedName>,
}

impl Actors {
    /// Returns all named actors, the two required ones first.
    pub fn names(&self) -> impl Iterator<Item = &NamespacedName> {
        let optional = [
            &self.estimation_actor,
            &self.review_actor,
            &self.apply_actor,
            &self.invariant_actor,
        ];
        let required = [&self.strategy_actor, &self.execution_actor];
        required.into_iter().chain(optional.into_iter().flatten())
    }
}

text_enum! {
    /// Whether new plans may use an action.
    #[derive(Default)]
    ActionState: "action state" {
        #[default]
        Available = "available",
        Archived = "archived",
    }
}

/// A command that must succeed before the work counts as done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Check {
    pub run: String,
    pub name: Option<String>,
    /// In seconds.
    pub timeout: Option<u64>,
}

/// Limits for a plan and its children; `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    pub usd: Option<f64>,
    pub tokens: Option<u64>,
    /// In seconds.
    pub wall: Option<u64>,
}

/// Error of an invalid action.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ActionError {
    #[error("`{field}` must not be empty")]
    Empty { field: &'static str },
    #[error("`{field}` may be {maximum} bytes long, this one has {length}")]
    TooLong {
        field: &'static str,
        maximum: usize,
        length: usize,
    },
    #[error("`{field}` must not contain a NUL character")]
    Nul { field: &'static str },
    #[error("`budget.usd` must be a number of dollars from 0, not {usd}")]
    Budget { usd: f64 },
    #[error(transparent)]
    Argument(#[from] ArgumentDeclarationError),
}

impl Action {
    /// Runs every check that needs no registry, file or model.
    pub fn validate(&self) -> Result<(), ActionError> {
        check_required("description", &self.description, DESCRIPTION_MAXIMUM)?;
        check_required("definition_of_done", &self.definition_of_done, TEXT_MAXIMUM)?;
        if let Some(text) = &self.long_description {
            check_length("long_description", text, TEXT_MAXIMUM)?;
        }
        for text in &self.invariants {
            check_required("invariants", text, DESCRIPTION_MAXIMUM)?;
        }
        for check in &self.checks {
            check.validate()?;
        }
        self.budget.validate()?;
        argument::validate_declarations(&self.arguments)?;
        Ok(())
    }

    /// Returns the argument values of a plan: the given values parsed as their declared types, and
    /// the defaults of arguments not given. Optional arguments with neither are omitted.
    pub fn parse_arguments(
        &self,
        given: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, Value>, ArgumentError> {
        argument::parse_arguments(&self.arguments, given)
    }
}

impl Check {
    pub(crate) fn validate(&self) -> Result<(), ActionError> {
        check_required("checks.run", &self.run, TEXT_MAXIMUM)?;
        check_no_nul("checks.run", &self.run)?;
        if let Some(name) = &self.name {
            check_required("checks.name", name, DESCRIPTION_MAXIMUM)?;
            check_no_nul("checks.name", name)?;
        }
        Ok(())
    }
}

impl Budget {
    pub(crate) fn validate(&self) -> Result<(), ActionError> {
        match self.usd {
            Some(usd) if !usd.is_finite() || usd < 0.0 => Err(ActionError::Budget { usd }),
            _ => Ok(()),
        }
    }
}

pub(crate) fn check_required(
    field: &'static str,
    text: &str,
    maximum: usize,
) -> Result<(), ActionError> {
    if text.trim().is_empty() {
        return Err(ActionError::Empty { field });
    }
    check_length(field, text, maximum)
}

pub(crate) fn check_length(
    field: &'static str,
    text: &str,
    maximum: usize,
) -> Result<(), ActionError> {
    let length = text.len();
    if length > maximum {
        return Err(ActionError::TooLong {
            field,
            maximum,
            length,
        });
    }
    Ok(())
}

fn check_no_nul(field: &'static str, text: &str) -> Result<(), ActionError> {
    if text.contains('\0') {
        return Err(ActionError::Nul { field });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn minimal() -> Action {
        serde_json::from_value(json!({
            "id": "01JZZZZZZZ0000000000ABCDEF",
            "name": "local/coverage",
            "description": "Raise coverage",
            "actors": {"strategy_actor": "planner", "execution_actor": "builtin/direct"},
            "definition_of_done": "Coverage is 90 %",
            "created_at": "2026-01-31T12:00:00Z",
            "updated_at": "2026-01-31T12:00:00Z",
            "version": 1,
        }))
        .unwrap()
    }

    #[test]
    fn a_minimal_action_has_the_defaults_and_reads_back() {
        let action = minimal();
        assert_eq!(action.validate(), Ok(()));
        assert!(action.reusable && !action.read_only);
        assert_eq!(action.state, ActionState::Available);
        assert_eq!(action.actors.strategy_actor.to_string(), "local/planner");
        let json = serde_json::to_string(&action).unwrap();
        assert_eq!(serde_json::from_str::<Action>(&json).unwrap(), action);
    }

    #[test]
    fn texts_have_bounds() {
        let mut action = minimal();
        action.description = "é".repeat(DESCRIPTION_MAXIMUM / 2);
        action.long_description = Some("x".repeat(TEXT_MAXIMUM));
        assert_eq!(action.validate(), Ok(()));
        action.description.push('x');
        assert_eq!(
            action.validate().unwrap_err().to_string(),
            "`description` may be 4096 bytes long, this one has 4097"
        );
        let mut action = minimal();
        action.long_description = Some("x".repeat(TEXT_MAXIMUM + 1));
        assert!(matches!(
            action.validate(),
            Err(ActionError::TooLong {
                field: "long_description",
                ..
            })
        ));
        let mut action = minimal();
        action.definition_of_done = " \n".to_owned();
        assert_eq!(
            action.validate(),
            Err(ActionError::Empty {
                field: "definition_of_done"
            })
        );
        let mut action = minimal();
        action.invariants = vec![String::new()];
        assert_eq!(
            action.validate(),
            Err(ActionError::Empty {
                field: "invariants"
            })
        );
    }

    #[test]
    fn checks_are_commands_that_can_be_run() {
        let check = |run: &str, name: Option<&str>| Check {
            run: run.to_owned(),
            name: name.map(str::to_owned),
            timeout: None,
        };
        let with = |check: Check| Action {
            checks: vec![check],
            ..minimal()
        };
        assert_eq!(with(check("cargo test", Some("tests"))).validate(), Ok(()));
        let field = "checks.run";
        assert_eq!(
            with(check("", None)).validate(),
            Err(ActionError::Empty { field })
        );
        assert_eq!(
            with(check("a\0b", None)).validate(),
            Err(ActionError::Nul { field })
        );
        assert_eq!(
            with(check("a", Some("b\0"))).validate(),
            Err(ActionError::Nul {
                field: "checks.name"
            })
        );
    }

    #[test]
    fn a_budget_is_not_negative() {
        let mut action = minimal();
        action.budget.usd = Some(0.0);
        assert_eq!(action.validate(), Ok(()));
        for usd in [-0.01, f64::NAN, f64::INFINITY] {
            action.budget.usd = Some(usd);
            assert!(matches!(action.validate(), Err(ActionError::Budget { .. })));
        }
    }

    #[test]
    fn declarations_are_checked_and_given_values_are_read() {
        let mut action = minimal();
        action.arguments =
            serde_json::from_value(json!([{"name": "target", "type": "integer"}])).unwrap();
        assert_eq!(action.validate(), Ok(()));
        let given = BTreeMap::from([("target".to_owned(), "90".to_owned())]);
        let values = action.parse_arguments(&given).unwrap();
        assert_eq!(values, BTreeMap::from([("target".to_owned(), json!(90))]));
        action.arguments[0].name = "9".to_owned();
        assert!(matches!(action.validate(), Err(ActionError::Argument(_))));
    }
}
