//! Renders the answer of the demo.

use std::borrow::Cow;

use cleveragents_api::plan::PlanConflict;
use cleveragents_api::plan::errors::PlanError;
use cleveragents_api::plan::tree::TreeDecision;
use cleveragents_app::plan::plan_error;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{ChainFault, ErrorRecord, NamespacedName, Phase, PlanState};
use cleveragents_ports::journal_verification::Verification;
use serde::Serialize;

use super::workspace::{CONFLICT_FILE, DemoWorkspace};
use super::{DemoPlanOutcome, DemoPlanResult, DemoResult};
use crate::commands::plan::tree_row;
use crate::failure::{CommandFailure, ExitCode, display_path};
use crate::next_step;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell};

#[derive(Debug)]
pub(super) struct DemoFolders {
    data_directory: String,
    repository: String,
    /// The prefix of the paths of definitions, which is removed in output.
    definitions: String,
    is_kept: bool,
}

#[derive(Debug, Serialize)]
struct DemoAnswer<'a> {
    data_directory: &'a str,
    repository: &'a str,
    /// Whether the folders still exist.
    kept: bool,
    plans: Vec<DemoPlanAnswer<'a>>,
    /// The decisions of the first plan, and its changes.
    tree: &'a [TreeDecision],
    diff: Cow<'a, str>,
    commits: Vec<DemoCommit<'a>>,
    counts: &'a DemoCounts,
}

#[derive(Debug, Serialize)]
struct DemoCommit<'a> {
    commit: &'a str,
    subject: &'a str,
}

#[derive(Debug, Serialize)]
struct DemoPlanAnswer<'a> {
    part: &'static str,
    story: &'static str,
    plan_id: PlanId,
    name: &'a NamespacedName,
    phase: Phase,
    state: PlanState,
    as_scripted: bool,
    /// The deviations from the expected outcome, each as a sentence.
    differences: Vec<String>,
    tool_calls: usize,
    model_calls: usize,
    changes: usize,
    errors: Vec<PlanError>,
    conflicts: Vec<DemoConflict>,
    journal: DemoJournal<'a>,
    /// Missing or contradictory records, each as a sentence.
    lost: &'a [String],
}

/// A file that blocked the apply, and why.
#[derive(Debug, Serialize)]
struct DemoConflict {
    path: String,
    reason: String,
}

/// The result of verifying a plan's journal.
#[derive(Debug, Serialize)]
struct DemoJournal<'a> {
    verified: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    head_hash: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<&'a ChainFault>,
}

/// Totals over all plans.
#[derive(Debug, Default, Serialize)]
struct DemoCounts {
    plans: usize,
    tool_calls: usize,
    model_calls: usize,
    #[serde(rename = "changes_recorded")]
    changes: usize,
    #[serde(rename = "errors_recorded")]
    errors: u64,
    #[serde(rename = "events_verified")]
    events: i64,
    #[serde(rename = "lost")]
    inconsistencies: usize,
}

impl DemoFolders {
    pub(super) fn of(workspace: &DemoWorkspace, is_kept: bool) -> Self {
        Self {
            data_directory: display_path(&workspace.data()),
            repository: display_path(&workspace.repository()),
            definitions: display_path(&workspace.definitions()) + "/",
            is_kept,
        }
    }
}

pub(super) fn answer(
    result: &DemoResult,
    folders: &DemoFolders,
) -> Result<CommandAnswer, CommandFailure> {
    let counts = DemoCounts::of(&result.plans);
    let plans = result.plans.iter();
    let commits = result.commits.iter();
    let commits = commits.map(|(commit, subject)| DemoCommit { commit, subject });
    let data = DemoAnswer {
        data_directory: &folders.data_directory,
        repository: &folders.repository,
        kept: folders.is_kept,
        plans: plans.map(|it| DemoPlanAnswer::of(it, result)).collect(),
        tree: &result.tree,
        diff: String::from_utf8_lossy(&result.patch),
        commits: commits.collect(),
        counts: &counts,
    };
    let answer = CommandAnswer::new(&data, view(result, &counts, folders))?;
    Ok(add_messages(answer, result, folders))
}

/// Adds messages and the exit code.
fn add_messages(
    answer: CommandAnswer,
    result: &DemoResult,
    folders: &DemoFolders,
) -> CommandAnswer {
    let mut answer = answer;
    let mut other = 0;
    for ended in &result.plans {
        for difference in ended.differences(result.edit_is_kept) {
            other += 1;
            let text = format!("{} did not end as scripted: {difference}", ended.plan.name);
            answer = answer.with_message(MessageLevel::Error, text);
        }
    }
    answer = match other {
        0 => {
            let seconds = result.duration.as_secs_f64();
            let text = format!("each plan ended as scripted, in {seconds:.1} s");
            let kept = format!("the edit of {CONFLICT_FILE} was preserved");
            answer
                .with_message(MessageLevel::Info, kept)
                .with_message(MessageLevel::Info, text)
        }
        _ => answer.with_exit_code(ExitCode::Error),
    };
    if !folders.is_kept {
        return answer;
    }
    let on = &folders.data_directory;
    answer
        .with_message(
            MessageLevel::Hint,
            format!("agents plan list --data-dir {on}"),
        )
        .with_message(
            MessageLevel::Hint,
            format!("git -C {} log", folders.repository),
        )
}

impl DemoCounts {
    fn of(plans: &[DemoPlanResult]) -> Self {
        let mut counts = Self {
            plans: plans.len(),
            ..Self::default()
        };
        for ended in plans {
            let records = &ended.evidence.records;
            counts.tool_calls += records.tool_calls.len();
            counts.model_calls += records.model_calls.len();
            counts.changes += records.changes.len();
            counts.errors += records.failed_attempts();
            counts.events += ended.evidence.journal.as_ref().map_or(0, |it| it.events);
            counts.inconsistencies += ended.evidence.inconsistencies.len();
        }
        counts
    }

    fn rows(&self) -> Vec<(&'static str, ViewCell)> {
        let lost = match self.inconsistencies {
            0 => Tone::Good,
            _ => Tone::Bad,
        };
        vec![
            ("plans", self.plans.to_string().into()),
            ("tool calls", self.tool_calls.to_string().into()),
            ("model calls", self.model_calls.to_string().into()),
            ("changes recorded", self.changes.to_string().into()),
            ("errors recorded", self.errors.to_string().into()),
            ("events verified", self.events.to_string().into()),
            (
                "lost",
                ViewCell::new(self.inconsistencies.to_string(), lost),
            ),
        ]
    }
}

impl<'a> DemoPlanAnswer<'a> {
    fn of(plan_result: &'a DemoPlanResult, result: &DemoResult) -> Self {
        let evidence = &plan_result.evidence;
        let (plan, records) = (&evidence.plan, &evidence.records);
        let differences = plan_result.differences(result.edit_is_kept);
        let errors = records.errors.iter().cloned();
        Self {
            part: plan_result.plan.name,
            story: plan_result.plan.description,
            plan_id: plan.identity.plan_id,
            name: &plan.name,
            phase: plan.position.phase(),
            state: plan.position.state(),
            as_scripted: differences.is_empty(),
            differences,
            tool_calls: records.tool_calls.len(),
            model_calls: records.model_calls.len(),
            changes: records.changes.len(),
            errors: errors
                .map(|it| plan_error(it, plan.destination.as_ref(), next_step::render))
                .collect(),
            conflicts: conflicts(plan_result),
            journal: DemoJournal::of(&evidence.journal),
            lost: &evidence.inconsistencies,
        }
    }
}

impl<'a> DemoJournal<'a> {
    fn of(journal: &'a Result<Verification, ChainFault>) -> Self {
        let verification = journal.as_ref().ok();
        Self {
            verified: verification.is_some(),
            events: verification.map(|it| it.events),
            head_hash: verification.map(|it| it.head_hash.as_str()),
            fault: journal.as_ref().err(),
        }
    }
}

fn conflicts(plan_result: &DemoPlanResult) -> Vec<DemoConflict> {
    let found = match &plan_result.outcome {
        DemoPlanOutcome::Blocked(conflicts) => conflicts.as_slice(),
        _ => &[],
    };
    let conflict = |it: &PlanConflict| {
        let path = it.path.as_ref().map(ToString::to_string);
        DemoConflict {
            path: path.unwrap_or_default(),
            reason: it.reason.to_string(),
        }
    };
    found.iter().map(conflict).collect()
}

fn view(result: &DemoResult, counts: &DemoCounts, folders: &DemoFolders) -> OutputView {
    let plans = &result.plans;
    let errors = plans.iter().flat_map(|it| {
        let attempts = it.evidence.records.attempts().into_iter();
        attempts.map(move |error| error_row(it.plan.name, &error, folders))
    });
    let blocked = plans.iter().flat_map(|it| {
        let name = it.plan.name;
        conflicts(it).into_iter().map(move |conflict| {
            vec![
                ViewCell::new(name, Tone::Strong),
                conflict.path.into(),
                ViewCell::new(conflict.reason, Tone::Doubtful),
            ]
        })
    });
    let commits = result.commits.iter().map(|(id, subject)| {
        let id = ViewCell::new(id.clone(), Tone::Faint);
        vec![id, subject.clone().into()]
    });
    let journals = plans.iter().map(journal_row);
    let first = plans.first().map_or("", |it| it.plan.name);
    OutputView::new()
        .table(
            "Plans",
            &["plan", "state", "tools", "models", "changes", "story"],
            plans.iter().map(|it| plan_row(it, result)),
        )
        .tree(
            &format!("Decisions of {first}"),
            result.tree.iter().map(tree_row),
        )
        .text(format!("Changes of {first}"))
        .patch(result.patch.clone())
        .table(
            "Failed attempts",
            &["plan", "category", "recovery", "message"],
            errors,
        )
        .table("Conflicts", &["plan", "path", "reason"], blocked)
        .table("Commits", &["commit", "subject"], commits)
        .table("Journals", &["plan", "events", "head hash"], journals)
        .panel("Counts", counts.rows())
}

fn plan_row(plan_result: &DemoPlanResult, result: &DemoResult) -> Vec<ViewCell> {
    let records = &plan_result.evidence.records;
    let tone = if plan_result.differences(result.edit_is_kept).is_empty() {
        Tone::Good
    } else {
        Tone::Bad
    };
    vec![
        ViewCell::new(plan_result.plan.name, Tone::Strong),
        ViewCell::new(plan_result.evidence.plan.position.to_string(), tone),
        records.tool_calls.len().to_string().into(),
        records.model_calls.len().to_string().into(),
        records.changes.len().to_string().into(),
        plan_result.plan.description.into(),
    ]
}

fn error_row(name: &'static str, error: &ErrorRecord, folders: &DemoFolders) -> Vec<ViewCell> {
    vec![
        ViewCell::new(name, Tone::Strong),
        ViewCell::new(error.category.as_str(), Tone::Bad),
        error.recovery.as_str().into(),
        error.message.replace(&folders.definitions, "").into(),
    ]
}

fn journal_row(plan_result: &DemoPlanResult) -> Vec<ViewCell> {
    let name = ViewCell::new(plan_result.plan.name, Tone::Strong);
    match &plan_result.evidence.journal {
        Ok(found) => vec![
            name,
            found.events.to_string().into(),
            ViewCell::new(found.head_hash.clone(), Tone::Faint),
        ],
        Err(fault) => vec![
            name,
            ViewCell::from(""),
            ViewCell::new(fault.to_string(), Tone::Bad),
        ],
    }
}
