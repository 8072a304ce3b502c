//! The demo's answer.

use cleveragents_domain::ErrorRecord;
use serde_json::{Value, json};

use super::stage::{CONTESTED, Stage};
use super::{Ended, Outcome, Played};
use crate::commands::plan::{error_data, flat, twig};
use crate::failure::{ExitCode, shown_path};
use crate::output::{Answer, Cell, Level, Tone, View};

/// Where it was played.
#[derive(Debug)]
pub(super) struct Places {
    data_directory: String,
    repository: String,
    /// What the paths of definitions begin with, which tells nobody anything.
    definitions: String,
    kept: bool,
}

/// What all plans came to.
#[derive(Debug, Default)]
struct Counts {
    plans: usize,
    tool_calls: usize,
    model_calls: usize,
    changes: usize,
    errors: u64,
    events: i64,
    lost: usize,
}

impl Places {
    pub(super) fn of(stage: &Stage, kept: bool) -> Self {
        Self {
            data_directory: shown_path(&stage.data()),
            repository: shown_path(&stage.repository()),
            definitions: shown_path(&stage.definitions()) + "/",
            kept,
        }
    }
}

pub(super) fn answer(played: &Played, places: &Places) -> Answer {
    let counts = Counts::of(&played.plans);
    let plans: Vec<Value> = played
        .plans
        .iter()
        .map(|it| plan_data(it, played))
        .collect();
    let commits = played.commits.iter();
    let commits = commits.map(|(id, subject)| json!({ "commit": id, "subject": subject }));
    let data = json!({
        "data_directory": places.data_directory,
        "repository": places.repository,
        "kept": places.kept,
        "plans": plans,
        "tree": played.tree.nodes.iter().map(flat).collect::<Vec<_>>(),
        "diff": String::from_utf8_lossy(&played.patch),
        "commits": commits.collect::<Vec<_>>(),
        "counts": counts.data(),
    });
    let answer = Answer::new(data, view(played, &counts, places));
    concluded(answer, played, places)
}

/// What is said beside it, and the exit code.
fn concluded(answer: Answer, played: &Played, places: &Places) -> Answer {
    let mut answer = answer;
    let mut other = 0;
    for ended in &played.plans {
        for difference in ended.differences(played.edit_is_kept) {
            other += 1;
            let text = format!("{} did not end as scripted: {difference}", ended.part.name);
            answer = answer.say(Level::Error, text);
        }
    }
    answer = match other {
        0 => {
            let seconds = played.took.as_secs_f64();
            let text = format!("each plan ended as scripted, in {seconds:.1} s");
            let kept = format!("what somebody had changed in {CONTESTED} is as they left it");
            answer.say(Level::Info, kept).say(Level::Info, text)
        }
        _ => answer.exit(ExitCode::Error),
    };
    if !places.kept {
        return answer;
    }
    let on = &places.data_directory;
    answer
        .say(Level::Hint, format!("agents plan list --data-dir {on}"))
        .say(Level::Hint, format!("git -C {} log", places.repository))
}

impl Counts {
    fn of(plans: &[Ended]) -> Self {
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
            counts.lost += ended.evidence.lost.len();
        }
        counts
    }

    fn data(&self) -> Value {
        json!({
            "plans": self.plans,
            "tool_calls": self.tool_calls,
            "model_calls": self.model_calls,
            "changes_recorded": self.changes,
            "errors_recorded": self.errors,
            "events_verified": self.events,
            "lost": self.lost,
        })
    }

    fn rows(&self) -> Vec<(&'static str, Cell)> {
        let lost = match self.lost {
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
            ("lost", Cell::new(self.lost.to_string(), lost)),
        ]
    }
}

fn plan_data(ended: &Ended, played: &Played) -> Value {
    let records = &ended.evidence.records;
    let plan = &ended.evidence.plan;
    let differences = ended.differences(played.edit_is_kept);
    let conflicts: Vec<Value> = conflicts(ended)
        .map(|(path, reason)| json!({ "path": path, "reason": reason }))
        .collect();
    let journal = match &ended.evidence.journal {
        Ok(found) => json!({
            "verified": true,
            "events": found.events,
            "head_hash": found.head_hash,
        }),
        Err(fault) => json!({ "verified": false, "fault": fault }),
    };
    json!({
        "part": ended.part.name,
        "story": ended.part.story,
        "plan_id": plan.identity.plan_id,
        "name": plan.name,
        "phase": plan.position.phase(),
        "state": plan.position.state(),
        "as_scripted": differences.is_empty(),
        "differences": differences,
        "tool_calls": records.tool_calls.len(),
        "model_calls": records.model_calls.len(),
        "changes": records.changes.len(),
        "errors": records.errors.iter().map(error_data).collect::<Vec<_>>(),
        "conflicts": conflicts,
        "journal": journal,
        "lost": ended.evidence.lost,
    })
}

/// What was in the way of a plan: path and reason.
fn conflicts(ended: &Ended) -> impl Iterator<Item = (String, String)> {
    let found = match &ended.outcome {
        Outcome::Blocked(conflicts) => conflicts.as_slice(),
        _ => &[],
    };
    found.iter().map(|it| {
        let path = it.path.as_ref().map(ToString::to_string);
        (path.unwrap_or_default(), it.reason.to_string())
    })
}

fn view(played: &Played, counts: &Counts, places: &Places) -> View {
    let plans = &played.plans;
    let errors = plans.iter().flat_map(|it| {
        let attempts = it.evidence.records.attempts().into_iter();
        attempts.map(move |error| error_row(it.part.name, &error, places))
    });
    let blocked = plans.iter().flat_map(|it| {
        let name = it.part.name;
        conflicts(it).map(move |(path, reason)| {
            vec![
                Cell::new(name, Tone::Strong),
                path.into(),
                Cell::new(reason, Tone::Doubtful),
            ]
        })
    });
    let commits = played.commits.iter().map(|(id, subject)| {
        let id = Cell::new(id.clone(), Tone::Faint);
        vec![id, subject.clone().into()]
    });
    let journals = plans.iter().map(journal_row);
    let first = plans.first().map_or("", |it| it.part.name);
    View::new()
        .table(
            "Plans",
            &["plan", "stands at", "tools", "models", "changes", "story"],
            plans.iter().map(|it| plan_row(it, played)),
        )
        .tree(
            &format!("Decisions of {first}"),
            played.tree.nodes.iter().map(twig),
        )
        .text(format!("Changes of {first}"))
        .patch(played.patch.clone())
        .table(
            "Failed attempts",
            &["plan", "category", "recovery", "message"],
            errors,
        )
        .table("In the way", &["plan", "path", "reason"], blocked)
        .table("Commits", &["commit", "subject"], commits)
        .table("Journals", &["plan", "events", "head hash"], journals)
        .panel("Counts", counts.rows())
}

fn plan_row(ended: &Ended, played: &Played) -> Vec<Cell> {
    let records = &ended.evidence.records;
    let tone = match ended.differences(played.edit_is_kept).is_empty() {
        true => Tone::Good,
        false => Tone::Bad,
    };
    vec![
        Cell::new(ended.part.name, Tone::Strong),
        Cell::new(ended.evidence.plan.position.to_string(), tone),
        records.tool_calls.len().to_string().into(),
        records.model_calls.len().to_string().into(),
        records.changes.len().to_string().into(),
        ended.part.story.into(),
    ]
}

fn error_row(name: &'static str, error: &ErrorRecord, places: &Places) -> Vec<Cell> {
    vec![
        Cell::new(name, Tone::Strong),
        Cell::new(error.category.as_str(), Tone::Bad),
        error.recovery.as_str().into(),
        error.message.replace(&places.definitions, "").into(),
    ]
}

fn journal_row(ended: &Ended) -> Vec<Cell> {
    let name = Cell::new(ended.part.name, Tone::Strong);
    match &ended.evidence.journal {
        Ok(found) => vec![
            name,
            found.events.to_string().into(),
            Cell::new(found.head_hash.clone(), Tone::Faint),
        ],
        Err(fault) => vec![
            name,
            Cell::from(""),
            Cell::new(fault.to_string(), Tone::Bad),
        ],
    }
}
