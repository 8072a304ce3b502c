//! `agents demo`: four plans at once on a small repository, without a key and without a network.
//!
//! `stage` is the folder it is played in, `cast` the plans and how they are meant to end, `evidence`
//! what is on record of them, `shown` the answer. Everything else is the code that every other
//! command uses.

mod cast;
mod evidence;
mod interrupts;
mod shown;
mod stage;

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Event, EventKind, StreamId};
use cleveragents_engine::StoreHandle;
use cleveragents_engine::applying::ApplyOutcome;
use cleveragents_engine::decisions::{DecisionTree, Superseded};
use cleveragents_engine::execution::{Executed, ExecutionError, Executor, Selection};
use cleveragents_engine::journal::Tail;
use cleveragents_engine::ports::targets::{Conflict, Destination};
use serde_json::Value;
use tokio::task::JoinSet;

use self::cast::{Ending, PARTS, Part};
use self::evidence::Evidence;
use self::interrupts::Interrupts;
use self::stage::{CONTESTED, Stage};
use super::Context;
use crate::failure::{ExitCode, Failure, shown_path};
use crate::output::{Answer, Level};
use crate::progress::{ProgressLine, ProgressLines};
use crate::wiring::Wired;

/// Show what agents does: four plans at once, without a key and without a network
///
/// Makes a small git repository in a temporary folder and runs four plans on it at once: a scripted
/// model whose first attempt fails its check and is mended, tools that rename a function, a model
/// that hits a rate limit, and a plan whose file somebody else edits before it is applied. Shows
/// what was decided, changed, met and applied, and proves that nothing of it is lost. It has a data
/// directory of its own and leaves yours alone. Everything is removed at the end.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents demo
  agents demo --keep
  agents demo --format json | jq .data.counts")]
pub struct Demo {
    /// Leave the repository and the data directory there, to look at them
    #[arg(long)]
    keep: bool,
}

/// How one plan ended.
#[derive(Debug)]
struct Ended {
    part: &'static Part,
    outcome: Outcome,
    evidence: Evidence,
}

#[derive(Debug)]
enum Outcome {
    Applied,
    Blocked(Vec<Conflict>),
    /// Anything else, in words.
    Otherwise(String),
}

/// What there is to show at the end.
#[derive(Debug)]
struct Played {
    plans: Vec<Ended>,
    /// What was decided on the way of the first plan, and what it changed.
    tree: DecisionTree,
    patch: Vec<u8>,
    /// The commits of the repository, the newest first.
    commits: Vec<(String, String)>,
    /// Whether what somebody edited is as they left it.
    edit_is_kept: bool,
    took: Duration,
}

impl Demo {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let stage = Stage::set(context)?;
        let folder = shown_path(stage.folder());
        let played = self.play(&stage, context);
        let places = shown::Places::of(&stage, self.keep);
        let left = match self.keep {
            true => stage.keep(),
            false => stage.clear(),
        };
        let played = played.map_err(|failure| match self.keep {
            true => failure.because(format!("what there is of it is in {folder}")),
            false => failure,
        })?;
        let answer = shown::answer(&played, &places);
        Ok(match left {
            Ok(()) => answer,
            Err(error) => answer.say(
                Level::Warn,
                format!("{folder} could not be removed: {error}"),
            ),
        })
    }

    /// Plays it all; nothing is open any more when it returns.
    fn play(&self, stage: &Stage, outside: &Context<'_>) -> Result<Played, Failure> {
        let context = &stage.context(outside);
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let mut interrupts = Interrupts::listen(&wired);
        self.announce(stage, outside);
        stage.make_repository()?;
        let project = cast::project(stage, context, &wired)?;
        let mut plans = Vec::new();
        for part in &PARTS {
            interrupts.check(&wired)?;
            plans.push((part, part.make(stage, context, (&wired, &project))?));
        }
        let executed = at_once(&plans, &wired, outside, &mut interrupts)?;
        stage.edit()?;
        let mut ended = Vec::new();
        for ((part, plan), executed) in plans.iter().zip(executed) {
            interrupts.check(&wired)?;
            let outcome = match executed {
                Ok(Executed::Complete { .. }) => apply(*plan, &wired)?,
                Ok(other) => Outcome::Otherwise(format!("ended at {}", other.plan().position)),
                Err(error) => Outcome::Otherwise(error.to_string()),
            };
            ended.push(Ended {
                part,
                outcome,
                evidence: Evidence::of(*plan, &wired)?,
            });
        }
        let first = plans.first().map(|(_, plan)| *plan);
        let first = first.ok_or_else(|| Failure::new(ExitCode::Error, "the demo has no plans"))?;
        let diff = wired.wait(wired.results()?.diff(first, Selection::default()))?;
        Ok(Played {
            plans: ended,
            tree: wired.wait(wired.decisions().tree(first, Superseded::Hidden))?,
            patch: diff
                .resources
                .into_iter()
                .flat_map(|it| it.diff.patch)
                .collect(),
            commits: stage.commits()?,
            edit_is_kept: stage.edit_is_kept(),
            took: outside.environment.started_instant.elapsed(),
        })
    }

    /// Says where everything is. Who hears it may interrupt: from now on nothing is left behind.
    fn announce(&self, stage: &Stage, context: &Context<'_>) {
        if context.arguments.quiet {
            return;
        }
        let folder = shown_path(stage.folder());
        let then = match self.keep {
            true => "stays there",
            false => "is removed at the end",
        };
        let text = format!("demo: everything is in {folder} and {then}");
        context.lines.remark(&text);
    }
}

/// Executes the plans, all of them at the same time, each as a task of its own on one executor.
fn at_once(
    plans: &[(&'static Part, PlanId)],
    wired: &Wired<'_>,
    context: &Context<'_>,
    interrupts: &mut Interrupts,
) -> Result<Vec<Result<Executed, ExecutionError>>, Failure> {
    let executor = wired.executor()?;
    let lines = ProgressLines::new(context.arguments, context.environment);
    let (ended, stopped) = wired.wait(async {
        let mut work = JoinSet::new();
        for (place, (part, plan)) in plans.iter().enumerate() {
            let line = lines.line(part.name);
            let (executor, store) = (executor.clone(), wired.store().clone());
            let task = watched(*plan, wired.actor().to_owned(), executor, (store, line));
            work.spawn(async move { (place, task.await) });
        }
        let (mut ended, mut stopped) = (Vec::new(), Ok(()));
        loop {
            tokio::select! {
                done = work.join_next() => match done {
                    Some(done) => ended.push(done),
                    None => break (ended, stopped),
                },
                () = interrupts.next() => {
                    stopped = Err(interrupts::interrupted());
                    wired.interrupt();
                }
            }
        }
    });
    stopped?;
    let mut results = BTreeMap::new();
    for done in ended {
        match done {
            Ok((place, executed)) => drop(results.insert(place, executed)),
            Err(error) => {
                let what = "a plan ended unexpectedly";
                return Err(Failure::new(ExitCode::Error, what).caused_by(&error));
            }
        }
    }
    Ok(results.into_values().collect())
}

/// Executes one plan and says on its line what happens meanwhile.
async fn watched(
    plan: PlanId,
    actor: String,
    executor: Executor,
    (store, line): (StoreHandle, ProgressLine),
) -> Result<Executed, ExecutionError> {
    let mut tail = Tail::of_stream(store, StreamId::Plan(plan), 0);
    let work = executor.execute(plan, &actor, &|_| {});
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            found = tail.next() => for event in found? {
                if let Some(text) = told(&event) {
                    line.say(&text);
                }
            },
        }
    }
}

/// What a person who watches is told of an event.
fn told(event: &Event) -> Option<String> {
    let payload = event.payload.as_ref();
    let payload: Option<Value> = payload.and_then(|it| serde_json::from_str(it.get()).ok());
    let text = |key: &str| {
        let value = payload.as_ref()?.get(key)?;
        value.as_str().map(str::to_owned)
    };
    match &event.kind {
        EventKind::PlanPhaseChanged => text("to"),
        EventKind::ActorInvoked => text("title"),
        EventKind::ToolInvoked => text("tool"),
        EventKind::ModelAsked => Some("asks its model".to_owned()),
        EventKind::ModelFailed => Some("its model wants it to wait".to_owned()),
        EventKind::ValidationsCompleted => Some("its checks ran".to_owned()),
        EventKind::ErrorRecorded => text("message"),
        _ => None,
    }
}

/// Applies a plan, as `agents plan apply` does.
fn apply(plan: PlanId, wired: &Wired<'_>) -> Result<Outcome, Failure> {
    let ask = wired.apply_ask(plan, Destination::Current);
    let applied = wired.wait(wired.applies()?.apply(&ask))?;
    Ok(match applied {
        ApplyOutcome::Applied { .. } => Outcome::Applied,
        ApplyOutcome::Blocked { conflicts, .. } => Outcome::Blocked(conflicts),
        other => Outcome::Otherwise(format!("stands at {}", other.plan().position)),
    })
}

impl Ended {
    /// Where it did not end as scripted, each in words; nothing if it did.
    fn differences(&self, edit_is_kept: bool) -> Vec<String> {
        let records = &self.evidence.records;
        let mut found = Vec::new();
        match (self.part.ending, &self.outcome) {
            (Ending::Applied, Outcome::Applied) => {}
            (Ending::Conflict, Outcome::Blocked(conflicts)) => {
                let paths = conflicts.iter().map(|it| it.path.as_ref());
                let paths = paths.map(|it| it.map(ToString::to_string));
                if paths.ne([Some(CONTESTED.to_owned())]) {
                    found.push(format!("something else than {CONTESTED} was in the way"));
                }
                if !edit_is_kept {
                    found.push(format!("{CONTESTED} is not as somebody left it"));
                }
            }
            (_, Outcome::Otherwise(what)) => found.push(what.clone()),
            (Ending::Applied, _) => found.push("it was not applied".to_owned()),
            (Ending::Conflict, _) => found.push("nothing was in its way".to_owned()),
        }
        let at = self.evidence.plan.position;
        if !self.part.ending.is(at) {
            found.push(format!("it stands at {at}"));
        }
        let met: Vec<_> = records.errors.iter().map(|it| it.category).collect();
        if met != self.part.errors {
            let met: Vec<&str> = met.iter().map(|it| it.as_str()).collect();
            found.push(format!("it met other errors: {}", met.join(", ")));
        }
        if let Err(fault) = &self.evidence.journal {
            found.push(fault.to_string());
        }
        found.extend(self.evidence.lost.iter().cloned());
        found
    }
}
