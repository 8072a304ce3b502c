//! `agents run`: creates, executes and applies a plan in one command.

mod target_folder;
mod task;

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use cleveragents_app::trust::tightened_profile_warning;
use cleveragents_app::uncommitted::uncommitted_warning;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Actor, ActorKind, BaseSource, LlmActor, Phase, Plan, PlanState};
use cleveragents_engine::actors::open_model;
use cleveragents_engine::execution::{AutoApply, ExecuteOutcome, Selection};
use cleveragents_engine::lifecycle::{ActionChoice, UseActionRequest};
use cleveragents_ports::targets::Destination;
use serde_json::{Value, json};

use self::task::RunTask;
use super::actor::find;
use super::plan::{
    DestinationArgs, PlanProgress, executed_answer, outcome_answer, result_secret_warnings,
    run_with_progress, sandbox_warnings, stopped_failure, with_warnings,
};
use super::{CommandContext, OutputMode};
use crate::argument_types::{parse_dollars, parse_value};
use crate::arguments::Format;
use crate::bootstrap::AppContext;
use crate::confirmation::{Confirmation, confirm, confirm_unless_interrupted, is_interactive};
use crate::consent::TrustArgs;
use crate::failure::{CommandFailure, ExitCode};
use crate::names;
use crate::output::{CommandAnswer, MessageLevel};
use cleveragents_app::failure::no_model_failure;

/// Run a task on a repository: plan it, execute it in a sandbox, review the diff, apply it
///
/// The argument is an action, registered or in the repository's .agents/actions, or a task as free
/// text for the built-in action `builtin/do`. A project is created for the folder if it has none.
/// Your files do not change before you confirm the diff, or pass --yes. Resume an interrupted run
/// with `agents plan resume`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents run \"add a --version flag to the command line\"
  agents run local/fix-lint --arg level=strict
  agents run --file task.md --path /srv/shop --max-usd 0.50
  agents run local/fix-lint --yes --to branch agents/fix-lint
  agents run local/fix-lint --trust --yes
  agents run local/fix-lint --automation-profile ci --idempotency-key build-4711 --events")]
pub struct RunArgs {
    /// An action, or the task as free text; `-` reads the text from standard input
    #[arg(value_name = "ACTION|TASK", conflicts_with = "file")]
    task: Option<String>,

    /// Read the task from this file
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: Option<PathBuf>,

    /// A value for an argument of the action; may be repeated
    #[arg(short, long = "arg", value_name = "NAME=VALUE")]
    arguments: Vec<String>,

    /// The folder to work on; inside a repository, the whole repository
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = clap::ValueHint::DirPath)]
    path: PathBuf,

    /// Start from `head`, the last commit, or `worktree`, the files including uncommitted changes
    #[arg(long, value_name = "BASE", default_value = "head", value_parser = parse_value::<BaseSource>)]
    base: BaseSource,

    /// Automation profile: what needs your approval; a built-in profile or your own
    #[arg(long, value_name = "PROFILE")]
    automation_profile: Option<String>,

    /// The actor that makes the strategy, instead of the action's
    #[arg(long, value_name = "ACTOR")]
    strategy_actor: Option<String>,

    /// The actor that executes it, instead of the action's
    #[arg(long, value_name = "ACTOR")]
    execution_actor: Option<String>,

    /// Apply without confirmation
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    to: DestinationArgs,

    /// Stop before models cost more than this, in US dollars
    #[arg(long, value_name = "USD", value_parser = parse_dollars)]
    max_usd: Option<f64>,

    /// Write each event as a line of JSON as it happens, and the envelope as the last line
    #[arg(long)]
    events: bool,

    /// Idempotency key: repeating the request with the same key continues the same plan
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    idempotency_key: Option<String>,

    #[command(flatten)]
    trust: TrustArgs,
}

/// Where the command was given, and where the changes of the plan go.
struct RunTarget<'a> {
    context: &'a CommandContext<'a>,
    destination: Destination,
    /// Its name in a question to the user.
    name: &'a str,
}

impl RunArgs {
    pub fn output_mode(&self, _: Format) -> OutputMode {
        if self.events {
            OutputMode::Events
        } else {
            OutputMode::Answer
        }
    }

    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let destination = self.to.destination(context)?;
        let task_text = task::read_task(self.task.as_deref(), self.file.as_deref(), context)?;
        let target = target_folder::open_folder(&context.absolute(&self.path), context)?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let (task, shadowed) = RunTask::resolve(&task_text, &target, context, &app)?;
        let mut wanted = None;
        if let RunTask::Action(ActionChoice::Repository(action)) = &task {
            self.trust.require(action, &app, context.environment)?;
            wanted = action.draft.automation_profile.clone();
        }
        self.check_actors(&task, &app)?;
        let project = target_folder::find_or_create_project(&target, &app)?;
        let mut request = self.request(context, task)?;
        request.actor = app.actor().to_owned();
        request.projects = vec![project.name.clone()];
        let mut warnings = self.confirm_uncommitted(&project.resources, &app, context)?;
        self.trust.trust_includes(&project.resources, &app)?;
        let plan = app.block_on(app.masking_lifecycle()?.use_action(request))?;
        warnings.extend(shadowed);
        warnings.extend(tightened_profile_warning(&plan, wanted.as_ref()));
        let progress = PlanProgress::from_start(self.events, context);
        let target_name = self.to.describe(&target.display_path());
        let run_target = RunTarget {
            context,
            destination,
            name: &target_name,
        };
        let answer = self.run_plan(&app, &progress, &plan, run_target);
        let answer = answer.map_err(|failure| {
            let id = plan.identity.plan_id;
            failure.with("plan_id", json!(id))
        })?;
        let answer = if project.is_new {
            let text = format!(
                "{} is now the project {}",
                target.display_path(),
                project.name
            );
            answer.with_message(MessageLevel::Info, text)
        } else {
            answer
        };
        Ok(with_warnings(answer, warnings))
    }

    /// Checks that the actors exist and their models can be opened. Done first, so that a failure
    /// leaves nothing behind.
    fn check_actors(&self, task: &RunTask, app: &AppContext<'_>) -> Result<(), CommandFailure> {
        let is_text = matches!(task, RunTask::Text(_));
        let models = app.inquiry()?.models;
        for chosen in [&self.strategy_actor, &self.execution_actor] {
            let kind = match chosen {
                Some(text) => find_actor(text, app)?.kind,
                None if is_text => ActorKind::Llm(LlmActor::default()),
                None => continue,
            };
            if let ActorKind::Llm(llm) = &kind {
                open_model(&*models, llm).map_err(|error| no_model_failure(&error))?;
            }
        }
        Ok(())
    }

    fn request(
        &self,
        context: &CommandContext<'_>,
        task: RunTask,
    ) -> Result<UseActionRequest, CommandFailure> {
        let actor = |text: &Option<String>| {
            let name = text.as_deref().map(|text| names::parse_name("actor", text));
            name.transpose()
        };
        let chosen = self.automation_profile.as_deref().map(names::parse_profile);
        let (action, mut arguments) = match task {
            RunTask::Action(action) => (action, Vec::new()),
            RunTask::Text(words) => words.action(),
        };
        arguments.extend(self.arguments.iter().cloned());
        let settings = context.settings()?;
        let repository_profile = settings.repository_automation_profile();
        let repository_profile = repository_profile.as_deref().map(names::parse_profile);
        Ok(UseActionRequest {
            action,
            projects: Vec::new(),
            arguments,
            automation_profile: chosen.transpose()?,
            default_profile: names::parse_profile(&settings.user_automation_profile())?,
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

    /// Returns warnings about uncommitted files, which the plan will not see. Asks once on a
    /// terminal whether to continue.
    fn confirm_uncommitted(
        &self,
        resources: &[cleveragents_domain::Resource],
        app: &AppContext<'_>,
        context: &CommandContext<'_>,
    ) -> Result<Vec<String>, CommandFailure> {
        if self.base == BaseSource::Worktree {
            return Ok(Vec::new());
        }
        let uncommitted = app.app().find_uncommitted(resources);
        let warnings: Vec<String> = uncommitted.iter().map(uncommitted_warning).collect();
        if warnings.is_empty() || self.yes {
            return Ok(warnings);
        }
        let question = format!("{}\nContinue without them?", warnings.join("\n"));
        match confirm(&question, context.environment) {
            Confirmation::Yes | Confirmation::NoTerminal => Ok(warnings),
            Confirmation::No => Err(CommandFailure::new(ExitCode::Decision, "nothing was done")
                .kind("declined")
                .hint("agents run --base worktree …")
                .hint("git commit, then the same command")),
        }
    }

    /// Runs the plan to its end, or until the user must decide.
    fn run_plan(
        &self,
        app: &AppContext<'_>,
        progress: &PlanProgress,
        plan: &Plan,
        target: RunTarget<'_>,
    ) -> Result<CommandAnswer, CommandFailure> {
        let (context, id) = (target.context, plan.identity.plan_id);
        let executor = app.executor()?;
        let waits = |running: usize| progress.show_waiting_for_slot(running);
        let mut executed = {
            let work = executor.execute(id, app.actor(), &waits);
            run_with_progress(app, progress, id, work)?
                .map_err(|error| stopped_failure(error, id))?
        };
        if let ExecuteOutcome::NeedsApproval { .. } = executed {
            // `agents run` implies approval of the strategy; only the apply needs confirmation.
            let work = executor.execute(id, app.actor(), &waits);
            executed = run_with_progress(app, progress, id, work)?
                .map_err(|error| stopped_failure(error, id))?;
        }
        let may = match &executed {
            ExecuteOutcome::Complete {
                auto_apply: applies,
                ..
            } => applies.clone(),
            ExecuteOutcome::Unchanged(plan) if is_executed(plan) => AutoApply::No(String::new()),
            _ => {
                let answer = executed_answer(app, &executed, &self.to.to_argument())?;
                return with_cost(app, id, answer);
            }
        };
        if may != AutoApply::Yes && !self.yes {
            let reply = progress.suspend(|| {
                self.show_diff(app, id, context)?;
                let warnings = if is_interactive(context.environment) {
                    result_secret_warnings(app, id)?
                } else {
                    Vec::new()
                };
                let question = format!("Apply these changes to {}?", target.name);
                let question = [warnings, vec![question]].concat().join("\n");
                let reply = confirm_unless_interrupted(&question, context.environment);
                Ok::<_, CommandFailure>(app.block_on(reply))
            });
            match reply? {
                Some(Confirmation::Yes) => {}
                Some(Confirmation::No | Confirmation::NoTerminal) => {
                    return self.unapplied_answer(app, &executed);
                }
                None => {
                    return Err(interrupted_failure(id, &self.to.to_argument()));
                }
            }
        }
        app.check_not_interrupted(id)?;
        let service = app.apply_service()?;
        let request = app.apply_request(id, target.destination);
        let applied = run_with_progress(app, progress, id, service.apply(&request))??;
        let warnings = sandbox_warnings(&app.plan_work(id)?.sandboxes);
        let answer = with_warnings(outcome_answer(app, &applied)?, warnings);
        with_cost(app, id, answer)
    }

    /// Prints the diff before the user is asked about it.
    fn show_diff(
        &self,
        app: &AppContext<'_>,
        id: PlanId,
        context: &CommandContext<'_>,
    ) -> Result<(), CommandFailure> {
        if !context.environment.stdin.is_terminal() || !context.environment.stderr.is_terminal() {
            return Ok(());
        }
        let results = app.results()?;
        let diff = app.block_on(results.diff(id, Selection::default()))?;
        for resource in &diff.resources {
            context.lines.patch(&resource.diff.patch)?;
        }
        Ok(())
    }

    /// Returns the answer for an executed plan whose apply was not confirmed.
    fn unapplied_answer(
        &self,
        app: &AppContext<'_>,
        executed: &ExecuteOutcome,
    ) -> Result<CommandAnswer, CommandFailure> {
        let id = executed.plan().identity.plan_id;
        let answer = executed_answer(app, executed, &self.to.to_argument())?;
        let answer = with_warnings(answer, result_secret_warnings(app, id)?);
        let answer = answer.with_exit_code(ExitCode::Decision);
        with_cost(app, id, answer)
    }
}

/// Finds the actor that the user named.
fn find_actor(text: &str, app: &AppContext<'_>) -> Result<Actor, CommandFailure> {
    let name = names::parse_name("actor", text)?;
    Ok(find(&name, app)?.actor().clone())
}

fn is_executed(plan: &Plan) -> bool {
    let at = plan.position;
    let executed = (at.phase(), at.state()) == (Phase::Execute, PlanState::Complete);
    !at.is_terminal() && (executed || at.phase() == Phase::Apply)
}

/// Returns the failure for Ctrl-C at the question: the work is done and can be applied later with
/// the same `--to`.
fn interrupted_failure(id: PlanId, to: &str) -> CommandFailure {
    CommandFailure::new(
        ExitCode::Interrupted,
        "interrupted; the plan is executed, and your files are unchanged",
    )
    .kind("interrupted")
    .hint(format!("agents plan diff {id}"))
    .hint(format!("agents plan apply {id}{to}"))
    .with("plan_id", json!(id))
}

/// Adds the cost of models to the answer.
fn with_cost(
    app: &AppContext<'_>,
    id: PlanId,
    answer: CommandAnswer,
) -> Result<CommandAnswer, CommandFailure> {
    let spent = app.block_on(app.store().read(move |tx| tx.model_spend(id)))?;
    let mut answer = answer;
    if let Value::Object(data) = &mut answer.data {
        data.insert(
            "cost".to_owned(),
            json!({ "tokens": spent.tokens, "usd": spent.usd }),
        );
    }
    Ok(match spent.tokens {
        0 => answer,
        tokens => answer.with_message(
            MessageLevel::Info,
            format!("models used {tokens} tokens, {:.4} USD", spent.usd),
        ),
    })
}
