//! Selects the validations that apply to a plan.

use std::collections::BTreeMap;

use super::{Attachment, AttachmentScope, Validation};
use crate::id::{AttachmentId, PlanId, ResourceId};
use crate::name::NamespacedName;

/// The facts about a plan that select its validations.
#[derive(Debug, Clone, Copy)]
pub struct ValidationTarget<'a> {
    pub plan: PlanId,
    pub projects: &'a [NamespacedName],
    /// The resources the plan worked on. Duplicates count once.
    pub resources: &'a [PlanResource],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanResource {
    pub id: ResourceId,
    pub name: NamespacedName,
}

/// A validation to run on a resource, with the attachment that requires it.
#[derive(Debug, Clone, PartialEq)]
pub struct ApplicableValidation {
    pub resource: NamespacedName,
    pub validation: Validation,
    pub attachment: Attachment,
}

/// An attachment of a missing validation. It is an error rather than skipped, because the
/// validation may gate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the attachment {} refers to the validation `{validation}`, which does not exist", .attachment.short())]
pub struct UnknownValidation {
    pub attachment: AttachmentId,
    pub validation: NamespacedName,
}

/// Returns the validations that apply to a plan, ordered by resource, mode and name. A validation
/// attached in several scopes with the same arguments is returned once, with its narrowest scope.
pub fn applicable_validations(
    target: ValidationTarget<'_>,
    attachments: &[Attachment],
    validations: &[Validation],
) -> Result<Vec<ApplicableValidation>, UnknownValidation> {
    let resources: BTreeMap<ResourceId, &NamespacedName> = target
        .resources
        .iter()
        .map(|resource| (resource.id, &resource.name))
        .collect();
    let known: BTreeMap<&NamespacedName, &Validation> = validations
        .iter()
        .map(|validation| (&validation.name, validation))
        .collect();
    let mut found = Vec::new();
    for attachment in attachments {
        let Some(resource) = resources.get(&attachment.resource) else {
            continue;
        };
        if !target.matches_scope(&attachment.scope) {
            continue;
        }
        let Some(validation) = known.get(&attachment.validation) else {
            return Err(UnknownValidation {
                attachment: attachment.id,
                validation: attachment.validation.clone(),
            });
        };
        found.push(ApplicableValidation {
            resource: (*resource).clone(),
            validation: (*validation).clone(),
            attachment: attachment.clone(),
        });
    }
    found.sort_by_cached_key(ApplicableValidation::sort_key);
    found.dedup_by(|later, first| {
        later.attachment.resource == first.attachment.resource
            && later.attachment.validation == first.attachment.validation
            && later.attachment.args == first.attachment.args
    });
    Ok(found)
}

impl ValidationTarget<'_> {
    fn matches_scope(&self, scope: &AttachmentScope) -> bool {
        match scope {
            AttachmentScope::Direct => true,
            AttachmentScope::Project(project) => self.projects.contains(project),
            AttachmentScope::Plan(plan) => *plan == self.plan,
        }
    }
}

impl ApplicableValidation {
    /// Sorts the narrowest scope first among equal attachments. The other fields make the order
    /// deterministic.
    fn sort_key(&self) -> impl Ord + use<> {
        let args: Vec<String> = self
            .attachment
            .args
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let width = match self.attachment.scope {
            AttachmentScope::Plan(_) => 0,
            AttachmentScope::Project(_) => 1,
            AttachmentScope::Direct => 2,
        };
        (
            self.resource.to_string(),
            self.validation.mode,
            self.validation.name.to_string(),
            args,
            width,
            self.attachment.id,
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLAN: &str = "01JZZZZZZZ0000000000PPPPPP";
    const OTHER_PLAN: &str = "01JZZZZZZZ0000000000PPPPQQ";

    fn resource(tail: &str, name: &str) -> PlanResource {
        PlanResource {
            id: format!("01JZZZZZZZ0000000000RRRR{tail}").parse().unwrap(),
            name: name.parse().unwrap(),
        }
    }

    fn validation(name: &str, mode: &str) -> Validation {
        serde_json::from_value(json!({
            "name": name, "description": "x", "mode": mode, "source": {"run": "true"}, "timeout": 1,
        }))
        .unwrap()
    }

    fn attachment(
        tail: &str,
        resource: &PlanResource,
        name: &str,
        scope: AttachmentScope,
    ) -> Attachment {
        Attachment {
            id: format!("01JZZZZZZZ0000000000AAAA{tail}").parse().unwrap(),
            validation: name.parse().unwrap(),
            resource: resource.id,
            scope,
            args: BTreeMap::new(),
            created_at: Default::default(),
        }
    }

    fn collect(attachments: &[Attachment]) -> Result<Vec<String>, UnknownValidation> {
        let resources = [resource("01", "zebra"), resource("02", "apple")];
        let projects = ["shop".parse().unwrap()];
        let target = ValidationTarget {
            plan: PLAN.parse().unwrap(),
            projects: &projects,
            resources: &resources,
        };
        let validations = [
            validation("tests", "required"),
            validation("build", "required"),
            validation("audit", "informational"),
        ];
        let found = applicable_validations(target, attachments, &validations)?;
        let shown = |each: &ApplicableValidation| {
            let id = each.attachment.id.to_string();
            let (resource, validation) = (each.resource.name(), each.validation.name.name());
            format!("{resource} {validation} {}", &id[24..])
        };
        Ok(found.iter().map(shown).collect())
    }

    #[test]
    fn validations_are_ordered_by_resource_mode_and_name() {
        let [zebra, apple] = [resource("01", "zebra"), resource("02", "apple")];
        let direct = || AttachmentScope::Direct;
        let attachments = [
            attachment("01", &zebra, "tests", direct()),
            attachment("02", &apple, "audit", direct()),
            attachment("03", &apple, "tests", direct()),
            attachment("04", &apple, "build", direct()),
            attachment("05", &resource("03", "elsewhere"), "tests", direct()),
        ];
        assert_eq!(
            collect(&attachments).unwrap(),
            [
                "apple build 04",
                "apple tests 03",
                "apple audit 02",
                "zebra tests 01"
            ]
        );
    }

    #[test]
    fn duplicates_keep_the_narrowest_scope() {
        let apple = resource("02", "apple");
        let plan = |id: &str| AttachmentScope::Plan(id.parse().unwrap());
        let project = |name: &str| AttachmentScope::Project(name.parse().unwrap());
        let attachments = [
            attachment("01", &apple, "tests", AttachmentScope::Direct),
            attachment("02", &apple, "tests", project("shop")),
            attachment("03", &apple, "tests", plan(PLAN)),
            attachment("04", &apple, "build", project("other")),
            attachment("05", &apple, "build", plan(OTHER_PLAN)),
            attachment("06", &apple, "audit", project("shop")),
        ];
        assert_eq!(
            collect(&attachments).unwrap(),
            ["apple tests 03", "apple audit 06"]
        );
    }

    #[test]
    fn different_arguments_are_a_separate_run() {
        let apple = resource("02", "apple");
        let mut more = attachment("02", &apple, "tests", AttachmentScope::Direct);
        more.args.insert("folder".to_owned(), json!("b"));
        let mut same = attachment(
            "03",
            &apple,
            "tests",
            AttachmentScope::Project("shop".parse().unwrap()),
        );
        same.args.insert("folder".to_owned(), json!("b"));
        let attachments = [
            attachment("01", &apple, "tests", AttachmentScope::Direct),
            more,
            same,
        ];
        assert_eq!(
            collect(&attachments).unwrap(),
            ["apple tests 01", "apple tests 03"]
        );
    }

    #[test]
    fn a_dangling_attachment_is_reported() {
        let apple = resource("02", "apple");
        let gone = attachment("01", &apple, "gone", AttachmentScope::Direct);
        assert_eq!(
            collect(std::slice::from_ref(&gone))
                .unwrap_err()
                .to_string(),
            "the attachment 00aaaa01 refers to the validation `local/gone`, which does not exist"
        );
        let elsewhere = Attachment {
            scope: AttachmentScope::Plan(OTHER_PLAN.parse().unwrap()),
            ..gone
        };
        assert_eq!(collect(&[elsewhere]).unwrap(), Vec::<String>::new());
    }
}
