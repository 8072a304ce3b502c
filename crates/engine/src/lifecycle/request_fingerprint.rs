//! The fingerprint of a request to create a plan. It is stored with the plan under the request's
//! idempotency key, so that a repeated key is recognised as the same request or another one.

use cleveragents_definitions::ActionDraft;
use cleveragents_domain::{BaseSource, NamespacedName, ProfileName};
use cleveragents_ports::StoreError;
use serde::Serialize;

use super::use_action::{ActionChoice, UseActionRequest};
use crate::secrets::Secrets;

/// Version of the fingerprints written now. Version 1 had no prefix.
const PREFIX: &str = "v2:";

/// The content of a request that decides which plan it creates. Secrets are masked.
#[derive(Serialize)]
struct RequestContent<'a> {
    action: ActionContent<'a>,
    projects: &'a [NamespacedName],
    arguments: Vec<String>,
    automation_profile: &'a Option<ProfileName>,
    invariants: &'a [String],
    strategy_actor: &'a Option<NamespacedName>,
    execution_actor: &'a Option<NamespacedName>,
    base: BaseSource,
    max_usd: Option<f64>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum ActionContent<'a> {
    Registered(&'a NamespacedName),
    /// The content hash of an unregistered action.
    Unregistered(String),
}

/// The fingerprint of one request in the current version, and in every version that may be stored.
#[derive(Debug, Clone)]
pub(super) struct RequestFingerprint {
    current: String,
    version_1: String,
}

impl RequestFingerprint {
    pub(super) fn new(request: &UseActionRequest, secrets: &Secrets) -> Result<Self, StoreError> {
        Ok(Self {
            current: current(request, secrets)?,
            version_1: version_1(request, secrets),
        })
    }

    /// Returns the text to store.
    pub(super) fn as_str(&self) -> &str {
        &self.current
    }

    /// Whether `stored` is a fingerprint of the same request, in the version in which it was
    /// written.
    pub(super) fn matches(&self, stored: &str) -> bool {
        // Compared in the version in which it was stored, so that keys of older versions stay
        // valid.
        if stored.starts_with(PREFIX) {
            stored == self.current
        } else {
            stored == self.version_1
        }
    }
}

fn current(request: &UseActionRequest, secrets: &Secrets) -> Result<String, StoreError> {
    let unregistered = |draft: &ActionDraft| {
        let hash = draft.content_hash().map_err(StoreError::internal)?;
        Ok::<_, StoreError>(ActionContent::Unregistered(hash))
    };
    let content = RequestContent {
        action: match &request.action {
            ActionChoice::Registered(name) => ActionContent::Registered(name),
            ActionChoice::Given(draft) => unregistered(draft)?,
            ActionChoice::Repository(action) => unregistered(&action.draft)?,
        },
        projects: &request.projects,
        // Masked: the fingerprint is stored, and a hash of a short secret could be guessed.
        arguments: hidden_arguments(request, secrets),
        automation_profile: &request.automation_profile,
        invariants: &request.invariants,
        strategy_actor: &request.strategy_actor,
        execution_actor: &request.execution_actor,
        base: request.base,
        max_usd: request.max_usd,
    };
    // Keys of a JSON value are sorted, so the order of the fields does not matter.
    let content = serde_json::to_value(content).map_err(StoreError::internal)?;
    Ok(format!("{PREFIX}{}", hash_text(&content.to_string())))
}

/// Returns the fingerprint as it was stored before version 2. It depends on the debug format of
/// [`ActionDraft`].
fn version_1(request: &UseActionRequest, secrets: &Secrets) -> String {
    let action = match &request.action {
        ActionChoice::Registered(name) => name.to_string(),
        ActionChoice::Given(draft) => format!("{draft:?}"),
        ActionChoice::Repository(action) => format!("{:?}", action.draft),
    };
    let parts = serde_json::json!([
        action,
        request.projects,
        hidden_arguments(request, secrets),
        request.automation_profile,
        request.invariants,
        request.strategy_actor,
        request.execution_actor,
        request.base,
        request.max_usd,
    ]);
    hash_text(&parts.to_string())
}

fn hidden_arguments(request: &UseActionRequest, secrets: &Secrets) -> Vec<String> {
    let mask = |text: &String| secrets.mask(text).into_owned();
    request.arguments.iter().map(mask).collect()
}

fn hash_text(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use cleveragents_definitions::{DefinitionSource, read_action};

    use super::*;

    fn request(action: ActionChoice) -> UseActionRequest {
        UseActionRequest {
            action,
            projects: vec!["local/shop".parse().unwrap()],
            arguments: vec!["branch=main".to_owned()],
            automation_profile: None,
            default_profile: "supervised".parse().unwrap(),
            repository_profile: None,
            invariants: vec!["Keep the tests".to_owned()],
            strategy_actor: None,
            execution_actor: Some("local/coder".parse().unwrap()),
            base: BaseSource::Head,
            idempotency_key: Some("k".to_owned()),
            max_usd: Some(1.5),
            destination: None,
            actor: "eva".to_owned(),
        }
    }

    fn draft() -> ActionDraft {
        let text = "name: local/lint\ndescription: Lint\nstrategy_actor: local/thinker\n\
                    execution_actor: local/coder\ndefinition_of_done: Clean\n\
                    arguments:\n  - name: branch\n    type: string\n    required: true\n";
        let no_variables = |_: &str| None;
        read_action(&DefinitionSource::new("a.yaml", text), &no_variables).unwrap()
    }

    fn fingerprint(request: &UseActionRequest) -> RequestFingerprint {
        RequestFingerprint::new(request, &Secrets::default()).unwrap()
    }

    #[test]
    fn stored_fingerprints_of_both_versions_match_their_request() {
        let registered = request(ActionChoice::Registered("local/lint".parse().unwrap()));
        let given = request(ActionChoice::Given(Box::new(draft())));
        // Texts stored by earlier versions of this program; they must match forever.
        let stored = [
            (
                &registered,
                "1164ad07c43308f29272334766be9fdd509bc22c98e4af5949ffa9ad1030b472",
                "v2:f52da22fef46284daeafc29710779cf873877f8667a63b7a807fd6a0bffa9543",
            ),
            (
                &given,
                "f6b064fdb4d6ef480b742bf4d075c29f1d570582a7d1993096249a3be075f86e",
                "v2:615764e8bc8bca47a1b544c96bde41141aa438f465b3015f62e82c7d4af703d2",
            ),
        ];
        for (request, version_1, version_2) in stored {
            let found = fingerprint(request);
            assert_eq!(found.version_1, version_1);
            assert_eq!(found.as_str(), version_2);
            assert!(found.matches(version_1) && found.matches(version_2));
        }
        assert!(!fingerprint(&registered).matches(stored[1].1));
        assert!(!fingerprint(&registered).matches(stored[1].2));
    }

    #[test]
    fn every_part_of_a_request_changes_its_fingerprint() {
        let base = request(ActionChoice::Given(Box::new(draft())));
        let changes: [fn(&mut UseActionRequest); 9] = [
            |it| it.action = ActionChoice::Registered("local/lint".parse().unwrap()),
            |it| it.projects = vec!["local/bank".parse().unwrap()],
            |it| it.arguments = vec!["branch=other".to_owned()],
            |it| it.automation_profile = Some("ci".parse().unwrap()),
            |it| it.invariants.clear(),
            |it| it.strategy_actor = Some("local/thinker".parse().unwrap()),
            |it| it.execution_actor = None,
            |it| it.base = BaseSource::Worktree,
            |it| it.max_usd = None,
        ];
        let known = fingerprint(&base);
        for (number, change) in changes.into_iter().enumerate() {
            let mut other = base.clone();
            change(&mut other);
            let other = fingerprint(&other);
            assert!(!known.matches(other.as_str()), "{number}");
            assert!(!known.matches(&other.version_1), "{number}");
        }
    }

    #[test]
    fn the_caller_and_the_key_do_not_change_it() {
        let base = request(ActionChoice::Given(Box::new(draft())));
        let mut other = base.clone();
        other.actor = "ann".to_owned();
        other.idempotency_key = None;
        assert_eq!(fingerprint(&base).as_str(), fingerprint(&other).as_str());
    }
}
