//! `agents run`: the whole way in one command.

mod place;
mod task;

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Actor, ActorKind, Base, LlmActor, Phase, Plan, State};
use cleveragents_engine::actors::open_model;
use cleveragents_engine::execution::{Executed, MayApply, Selection};
use cleveragents_engine::lifecycle::{ActionChoice, UseRequest};
use cleveragents_engine::ports::targets::Destination;
use serde_json::{Value, json};

use self::task::Task;
use super::actor::find;
use super::plan::{To, Told, accompany, executed_answer, outcome, stopped};
use super::{Context, Output};
use crate::arguments::Format;
use crate::ask::{Reply, confirm, confirm_unless_interrupted};
use crate::consent::{self, Trust};
use crate::engine_failure::no_model;
use crate::failure::{ExitCode, Failure};
use crate::left_behind::{self, LeftBehind};
use crate::names;
use crate::output::{Answer, Level};
use crate::typed::{dollars, word};
use crate::wiring::{Wired, Wiring};

/// Do something to a repository: plan it, do it in a sandbox, show it, apply it
///
/// What is named is an action, registered or in the repository's .agents/actions; anything else is
/// a task in your own words for the built-in action `builtin/do`. The folder becomes a project if
/// it is none. Nothing of yours changes before you say yes to the diff, or give --yes. What is
/// interrupted can be gone on with: `agents plan resume`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents run \"add a --version flag to the command line\"
  agents run local/fix-lint --arg level=strict
  agents run --file task.md --path /srv/shop --max-usd 0.50
  agents run local/fix-lint --yes --to branch agents/fix-lint
  agents run local/fix-lint --trust --yes
  agents run local/fix-lint --automation-profile ci --idempotency-key build-4711 --events")]
pub struct Run {
    /// An action, or what to do in your own words; `-` reads the words from standard input
    #[arg(value_name = "ACTION|TASK", conflicts_with = "file")]
    task: Option<String>,

    /// Read what to do from this file
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: Option<PathBuf>,

    /// A value for an argument of the action; may be repeated
    #[arg(short, long = "arg", value_name = "NAME=VALUE")]
    arguments: Vec<String>,

    /// The folder to work on; the repository around it if it is in one
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = clap::ValueHint::DirPath)]
    path: PathBuf,

    /// What the work begins from: `head`, the last commit, or `worktree`, the files as they are
    #[arg(long, value_name = "BASE", default_value = "head", value_parser = word::<Base>)]
    base: Base,

    /// Where a human must decide: a built-in profile or one of your own
    #[arg(long, value_name = "PROFILE")]
    automation_profile: Option<String>,

    /// Who makes the strategy, instead of the action's choice
    #[arg(long, value_name = "ACTOR")]
    strategy_actor: Option<String>,

    /// Who does the work, instead of the action's choice
    #[arg(long, value_name = "ACTOR")]
    execution_actor: Option<String>,

    /// Apply without asking
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    to: To,

    /// Stop before models have cost more than this, in US dollars
    #[arg(long, value_name = "USD", value_parser = dollars)]
    max_usd: Option<f64>,

    /// Write each event as a line of JSON while it works, and the envelope as the last line
    #[arg(long)]
    events: bool,

    /// A name for this request: repeating it with the same name goes on with the same plan
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    idempotency_key: Option<String>,

    #[command(flatten)]
    trust: Trust,
}

impl Run {
    pub fn output(&self, _: Format) -> Output {
        match self.events {
            true => Output::Events,
            false => Output::Answer,
        }
    }

    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let destination = self.to.destination(context)?;
        let words = task::words(self.task.as_deref(), self.file.as_deref(), context)?;
        let place = place::look(&context.absolute(&self.path), context)?;
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let task = Task::of(&words, &place, context, &wired)?;
        let mut wanted = None;
        if let Task::Action(ActionChoice::Repository(action)) = &task {
            self.trust.require(action, &wired, context.environment)?;
            wanted = action.draft.automation_profile.clone();
        }
        self.check_actors(&task, &wired)?;
        let project = place::project(&place, &wired)?;
        let mut request = self.request(context, task)?;
        request.actor = wired.actor().to_owned();
        request.projects = vec![project.name.clone()];
        let mut warnings = self.uncommitted(&project.resources, &wiring, context)?;
        self.trust.includes(&project.resources, &wired)?;
        let plan = wired.wait(wired.plan_maker()?.use_action(request))?;
        warnings.extend(consent::tightened(&plan, wanted.as_ref()));
        let told = Told::from_the_beginning(self.events, context);
        let shown = self.to.shown(&place.shown());
        let answer = self.carry_out(&wired, &told, &plan, (context, destination, &shown));
        let answer = answer.map_err(|failure| {
            let id = plan.identity.plan_id;
            failure.with("plan_id", json!(id))
        })?;
        let answer = match project.is_new {
            true => {
                let text = format!("{} is a project now: {}", place.shown(), project.name);
                answer.say(Level::Info, text)
            }
            false => answer,
        };
        let say = |answer: Answer, text: String| answer.say(Level::Warn, text);
        Ok(warnings.into_iter().fold(answer, say))
    }

    /// That those who are to work are there and can be asked: without them nothing is left behind.
    fn check_actors(&self, task: &Task, wired: &Wired<'_>) -> Result<(), Failure> {
        let in_words = matches!(task, Task::Words(_));
        let models = wired.inquiry()?.models;
        for chosen in [&self.strategy_actor, &self.execution_actor] {
            let kind = match chosen {
                Some(text) => actor_named(text, wired)?.kind,
                None if in_words => ActorKind::Llm(LlmActor::default()),
                None => continue,
            };
            if let ActorKind::Llm(llm) = &kind {
                open_model(&*models, llm).map_err(|error| no_model(&error))?;
            }
        }
        Ok(())
    }

    fn request(&self, context: &Context<'_>, task: Task) -> Result<UseRequest, Failure> {
        let actor = |text: &Option<String>| {
            let name = text.as_deref().map(|text| names::name("actor", text));
            name.transpose()
        };
        let chosen = self.automation_profile.as_deref().map(names::profile);
        let (action, mut arguments) = match task {
            Task::Action(action) => (action, Vec::new()),
            Task::Words(words) => words.action(),
        };
        arguments.extend(self.arguments.iter().cloned());
        let settings = context.settings()?;
        let repository_profile = settings.repository_automation_profile();
        let repository_profile = repository_profile.as_deref().map(names::profile);
        Ok(UseRequest {
            action,
            projects: Vec::new(),
            arguments,
            automation_profile: chosen.transpose()?,
            default_profile: names::profile(&settings.user_automation_profile())?,
            repository_profile: repository_profile.transpose()?,
            invariants: Vec::new(),
            strategy_actor: actor(&self.strategy_actor)?,
            execution_actor: actor(&self.execution_actor)?,
            base: self.base,
            idempotency_key: self.idempotency_key.clone(),
            max_usd: self.max_usd,
            actor: String::new(),
        })
    }

    /// What the plan will not see. A person is asked once whether that is meant.
    fn uncommitted(
        &self,
        resources: &[cleveragents_domain::Resource],
        wiring: &Wiring,
        context: &Context<'_>,
    ) -> Result<Vec<String>, Failure> {
        if self.base == Base::Worktree {
            return Ok(Vec::new());
        }
        let left: Vec<LeftBehind> = left_behind::look(resources, wiring, context.environment);
        let warnings: Vec<String> = left.iter().map(LeftBehind::warning).collect();
        if warnings.is_empty() || self.yes {
            return Ok(warnings);
        }
        let question = format!("{}\nGo on without them?", warnings.join("\n"));
        match confirm(&question, context.environment) {
            Reply::Yes | Reply::Nobody => Ok(warnings),
            Reply::No => Err(Failure::new(ExitCode::Decision, "nothing was done")
                .kind("declined")
                .hint("agents run --base worktree …")
                .hint("git commit, then the same command")),
        }
    }

    /// Everything up to the end, or to what is the user's to decide.
    fn carry_out(
        &self,
        wired: &Wired<'_>,
        told: &Told,
        plan: &Plan,
        (context, destination, shown): (&Context<'_>, Destination, &str),
    ) -> Result<Answer, Failure> {
        let id = plan.identity.plan_id;
        let executor = wired.executor()?;
        let waits = |running: usize| told.waits_for_a_slot(running);
        let mut executed = {
            let work = executor.execute(id, wired.actor(), &waits);
            accompany(wired, told, id, work)?.map_err(|error| stopped(error, id))?
        };
        if let Executed::Gate { .. } = executed {
            // Whoever runs a task wants it done: only applying it is asked about.
            let work = executor.execute(id, wired.actor(), &waits);
            executed = accompany(wired, told, id, work)?.map_err(|error| stopped(error, id))?;
        }
        let may = match &executed {
            Executed::Complete { applies, .. } => applies.clone(),
            Executed::Stands(plan) if is_executed(plan) => MayApply::No(String::new()),
            _ => {
                let answer = executed_answer(wired, &executed, &self.to.typed())?;
                return with_cost(wired, id, answer);
            }
        };
        if may != MayApply::Yes && !self.yes {
            let reply = told.aside(|| {
                self.show(wired, id, context)?;
                let question = format!("Apply these changes to {shown}?");
                let reply = confirm_unless_interrupted(&question, context.environment);
                Ok::<_, Failure>(wired.wait(reply))
            });
            match reply? {
                Some(Reply::Yes) => {}
                Some(Reply::No | Reply::Nobody) => return self.left_for_you(wired, &executed),
                None => {
                    return Err(undecided(id, &self.to.typed()));
                }
            }
        }
        wired.go_on_unless_interrupted(id)?;
        let service = wired.applies()?;
        let ask = wired.apply_ask(id, destination);
        let applied = accompany(wired, told, id, service.apply(&ask))??;
        with_cost(wired, id, outcome(wired, &applied)?)
    }

    /// The diff, for a person who is about to be asked.
    fn show(&self, wired: &Wired<'_>, id: PlanId, context: &Context<'_>) -> Result<(), Failure> {
        if !context.environment.stdin.is_terminal() || !context.environment.stderr.is_terminal() {
            return Ok(());
        }
        let results = wired.results()?;
        let diff = wired.wait(results.diff(id, Selection::default()))?;
        for resource in &diff.resources {
            context.lines.patch(&resource.diff.patch)?;
        }
        Ok(())
    }

    /// The work is done, and nobody said yes to applying it.
    fn left_for_you(&self, wired: &Wired<'_>, executed: &Executed) -> Result<Answer, Failure> {
        let id = executed.plan().identity.plan_id;
        let answer = executed_answer(wired, executed, &self.to.typed())?;
        let answer = answer.exit(ExitCode::Decision);
        with_cost(wired, id, answer)
    }
}

/// The actor that was asked for.
fn actor_named(text: &str, wired: &Wired<'_>) -> Result<Actor, Failure> {
    let name = names::name("actor", text)?;
    Ok(find(&name, wired)?.actor().clone())
}

fn is_executed(plan: &Plan) -> bool {
    let at = plan.position;
    let executed = (at.phase(), at.state()) == (Phase::Execute, State::Complete);
    !at.is_terminal() && (executed || at.phase() == Phase::Apply)
}

/// Somebody interrupted the question: the work is done, and can be applied as it was asked for.
fn undecided(id: PlanId, to: &str) -> Failure {
    Failure::new(
        ExitCode::Interrupted,
        "interrupted; the work is done, and nothing of yours was changed",
    )
    .kind("interrupted")
    .hint(format!("agents plan diff {id}"))
    .hint(format!("agents plan apply {id}{to}"))
    .with("plan_id", json!(id))
}

/// What models cost, for programs and people.
fn with_cost(wired: &Wired<'_>, id: PlanId, answer: Answer) -> Result<Answer, Failure> {
    let spent = wired.wait(wired.store().read(move |unit| unit.spent(id)))?;
    let mut answer = answer;
    if let Value::Object(data) = &mut answer.data {
        data.insert(
            "cost".to_owned(),
            json!({ "tokens": spent.tokens, "usd": spent.usd }),
        );
    }
    Ok(match spent.tokens {
        0 => answer,
        tokens => answer.say(
            Level::Info,
            format!("models used {tokens} tokens, {:.4} USD", spent.usd),
        ),
    })
}
