//! `validation.list`

use cleveragents_api::validation::{
    ListedValidation, ValidationAdd, ValidationCounts, ValidationFilters, ValidationList,
    ValidationPage,
};
use cleveragents_api::{NextStep, Reply};
use cleveragents_domain::ValidationMode;
use cleveragents_engine::validations::AttachmentView;
use cleveragents_ports::ValidationRow;

use super::{attachment_details, details};
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::name_pattern::NamePattern;

impl Handler<ValidationList> for App {
    async fn handle(
        &self,
        request: ValidationList,
        _: &Caller,
    ) -> Result<Reply<ValidationPage>, RequestError> {
        let pattern = request.pattern.as_deref().map(NamePattern::parse);
        let pattern = pattern.transpose()?;
        let (mut all, mut attachments) = self.services.validations().validations().await?;
        all.retain(|row| {
            let validation = &row.validation;
            request.mode.is_none_or(|mode| mode == validation.mode)
                && pattern
                    .as_ref()
                    .is_none_or(|it| it.matches(&validation.name))
        });
        attachments.retain(|view| {
            let is = |row: &ValidationRow| row.validation.name == view.attachment.validation;
            all.iter().any(is)
        });
        Ok(page_reply(all, attachments, request))
    }
}

fn page_reply(
    all: Vec<ValidationRow>,
    attachments: Vec<AttachmentView>,
    request: ValidationList,
) -> Reply<ValidationPage> {
    let required = |row: &&ValidationRow| row.validation.mode == ValidationMode::Required;
    let required = all.iter().filter(required).count();
    let summary = ValidationCounts {
        total: all.len(),
        required,
        informational: all.len() - required,
        attachments: attachments.len(),
    };
    let listed = |row: ValidationRow| {
        let name = &row.validation.name;
        let of_this = |view: &&AttachmentView| view.attachment.validation == *name;
        ListedValidation {
            attachments: attachments.iter().filter(of_this).count(),
            validation: details(row),
        }
    };
    let limit = request.limit.unwrap_or(usize::MAX);
    let validations: Vec<ListedValidation> = all.into_iter().take(limit).map(listed).collect();
    let said = match validations.len() {
        1 => "1 validation listed".to_owned(),
        number => format!("{number} validations listed"),
    };
    let is_empty = summary.total == 0;
    let reply = Reply::new(ValidationPage {
        validations,
        attachments: attachments.into_iter().map(attachment_details).collect(),
        filters: ValidationFilters {
            mode: request.mode,
            pattern: request.pattern,
        },
        summary,
    });
    let reply = reply.info(said);
    if is_empty {
        reply.hint(NextStep::fill_in::<ValidationAdd>(&[("config", "FILE")]))
    } else {
        reply
    }
}
