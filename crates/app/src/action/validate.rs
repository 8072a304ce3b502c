//! `action.validate`

use cleveragents_api::action::{ActionCreate, ActionValidate, ValidAction};
use cleveragents_api::{NextStep, Reply};
use cleveragents_definitions::read_action;

use crate::app::{App, Caller, Handler};
use crate::definition::parse;
use crate::failure::RequestError;

impl Handler<ActionValidate> for App {
    async fn handle(
        &self,
        request: ActionValidate,
        _: &Caller,
    ) -> Result<Reply<ValidAction>, RequestError> {
        validate_action(&request)
    }
}

/// Checks a definition. Needs no database, so a front end can call it without an [`App`].
pub fn validate_action(request: &ActionValidate) -> Result<Reply<ValidAction>, RequestError> {
    let file = &request.file;
    let draft = parse(file, read_action).map_err(|errors| {
        RequestError::from(errors).hint("fix the file, then validate it again")
    })?;
    let answer = ValidAction {
        valid: true,
        file: file.name.clone(),
        name: draft.name,
        arguments: draft.arguments.len(),
        problems: Vec::new(),
    };
    let create = NextStep::fill_in::<ActionCreate>(&[("config", &file.argument)]);
    Ok(Reply::new(answer).info("The action is valid").hint(create))
}
