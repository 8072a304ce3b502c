//! Output of projects for people.

use cleveragents_api::project::{ProjectDetails, ProjectInvariant};
use cleveragents_api::resource::ResourceDetails;

use crate::commands::resource::summary;
use crate::output::{OutputView, Tone, ViewCell};

/// Returns the project, with a text about its plans.
pub(super) fn project(project: &ProjectDetails, plans: Option<String>) -> OutputView {
    let faint = |text: &str| ViewCell::new(text, Tone::Faint);
    let description = project.description.as_deref();
    let profile = project.automation_profile.as_ref();
    let mut rows = vec![
        (
            "name",
            ViewCell::new(project.name.to_string(), Tone::Strong),
        ),
        (
            "description",
            description.map_or(faint("-"), ViewCell::from),
        ),
        (
            "automation profile",
            profile.map_or(faint("(none)"), |name| name.to_string().into()),
        ),
        ("created", ViewCell::time(project.created_at, Tone::Normal)),
    ];
    if let Some(plans) = plans {
        rows.push(("plans", plans.into()));
    }
    OutputView::new().panel("Project", rows)
}

/// Adds a table of the resources, if there are any.
pub(super) fn resources<'a>(
    view: OutputView,
    resources: impl IntoIterator<Item = &'a ResourceDetails>,
) -> OutputView {
    let rows: Vec<Vec<ViewCell>> = resources.into_iter().map(summary).collect();
    if rows.is_empty() {
        return view;
    }
    view.table("Resources", &["name", "type", "sandbox", "path"], rows)
}

/// Adds a table of the rules, if there are any.
pub(super) fn invariants(view: OutputView, invariants: &[ProjectInvariant]) -> OutputView {
    if invariants.is_empty() {
        return view;
    }
    let rules = invariants.iter().map(|invariant| {
        let id = ViewCell::new(invariant.id.short(), Tone::Faint);
        vec![id, invariant.text.clone().into()]
    });
    view.table("Invariants", &["id", "text"], rules)
}
