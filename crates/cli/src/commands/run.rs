//! `agents run`: creates, executes and applies a plan in one command.

mod task;

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use cleveragents_api::plan::PlanStart;
use cleveragents_api::plan::drive::DriveAnswer;
use cleveragents_api::plan::run::StartedPlan;
use cleveragents_api::{MessageLevel, Reply, RequestKind};
use cleveragents_app::failure::display_path;
use cleveragents_domain::BaseSource;

use super::plan::cost::describe_cost;
use super::plan::{DestinationArgs, PlanProgress, Review, drive_view, run_with_progress};
use super::{CommandContext, OutputMode};
use crate::argument_types::{parse_dollars, parse_value};
use crate::arguments::Format;
use crate::bootstrap::AppContext;
use crate::confirmation::{Confirmation, confirm_unless_interrupted, is_interactive};
use crate::consent::{self, TrustArgs};
use crate::failure::{CommandFailure, ExitCode, FailureKind};
use crate::names;
use crate::output::CommandAnswer;

/// Run a task on a repository: plan it, execute it in a sandbox, review the diff, apply it
///
/// The argument is an action, registered or in the repository's .agents/actions, or a task as free
/// text for the built-in action `builtin/do`. A project is created for the folder if it has none.
/// Your files do not change before you confirm the diff, or pass --yes; at the question you can also
/// reject files, give feedback and redo, or choose a branch. Resume an interrupted run
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

impl RunArgs {
    pub fn output_mode(&self, _: Format) -> OutputMode {
        if self.events {
            OutputMode::Events
        } else {
            OutputMode::Answer
        }
    }

    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let request = self.request(context)?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_for_requests(RequestKind::Work)?;
        let started = self.send(request, &app, context)?;
        let id = started.answer.plan.plan_id;
        let progress = PlanProgress::from_start(self.events, context);
        progress.announce(&started.answer.plan);
        let reply = self.run_plan(&app, &progress, &started.answer, context);
        let reply = reply.map_err(|failure| {
            // A failure has no messages, and what was recovered is reported only once.
            app.app().log_messages(&started.messages);
            failure.with_plan_id(id)
        })?;
        let mut reply = with_cost(reply);
        // What was found before the plan ran comes after what it did.
        reply.messages.extend(started.messages);
        // What to run next comes last.
        reply
            .messages
            .sort_by_key(|message| message.level == MessageLevel::Hint);
        CommandAnswer::from_reply(reply, drive_view)
    }

    /// Sends the request. If it needs consent to a file of the repository, or leaves out
    /// uncommitted files, the user is asked on a terminal.
    fn send(
        &self,
        mut request: PlanStart,
        app: &AppContext<'_>,
        context: &CommandContext<'_>,
    ) -> Result<Reply<StartedPlan>, CommandFailure> {
        request.refuse_uncommitted = !self.yes && is_interactive(context.environment);
        loop {
            match app.call(request.clone()) {
                Err(failure) if consent::is_needed(&failure) => {
                    request.trusted_hash = Some(ask_for_trust(failure, app, context)?);
                }
                Err(failure) if failure.kind == FailureKind::Uncommitted => {
                    confirm_uncommitted(failure, app, context)?;
                    request.refuse_uncommitted = false;
                }
                reply => return reply,
            }
        }
    }

    fn request(&self, context: &CommandContext<'_>) -> Result<PlanStart, CommandFailure> {
        let to = self.to.destination(context)?;
        let task = task::read_task(self.task.as_deref(), self.file.as_deref(), context)?;
        let actor = |text: &Option<String>| {
            let name = text.as_deref().map(|text| names::parse_name("actor", text));
            name.transpose()
        };
        let chosen = self.automation_profile.as_deref().map(names::parse_profile);
        let settings = context.settings()?;
        let repository_profile = settings.repository_automation_profile();
        let repository_profile = repository_profile.as_deref().map(names::parse_profile);
        Ok(PlanStart {
            task: task.text,
            may_be_action: task.may_be_name,
            arguments: self.arguments.clone(),
            path: context.absolute(&self.path),
            base: self.base,
            automation_profile: chosen.transpose()?,
            strategy_actor: actor(&self.strategy_actor)?,
            execution_actor: actor(&self.execution_actor)?,
            yes: self.yes,
            to,
            max_usd: self.max_usd,
            idempotency_key: self.idempotency_key.clone(),
            trust: self.trust.is_given(),
            trusted_hash: None,
            refuse_uncommitted: false,
            default_profile: names::parse_profile(&settings.user_automation_profile())?,
            repository_profile: repository_profile.transpose()?,
            folder: context.environment.working_directory.clone(),
        })
    }

    /// Runs the plan to its end, or until the user must decide.
    fn run_plan(
        &self,
        app: &AppContext<'_>,
        progress: &PlanProgress,
        started: &StartedPlan,
        context: &CommandContext<'_>,
    ) -> Result<Reply<DriveAnswer>, CommandFailure> {
        let plan = started.plan.plan_id;
        let to = self.to.destination(context)?;
        let target = self.to.describe(&display_path(&started.path));
        let (handlers, caller) = (app.app(), app.caller());
        let reply = run_with_progress(app, progress, plan, handlers.drive(plan, &caller))?;
        let review = Review {
            app,
            progress,
            context,
            plan,
            question: format!("Apply these changes to {target}?"),
            typed_to: to.is_some().then(|| self.to.as_typed()),
            to,
        };
        review.finish(reply)
    }
}

/// Asks once whether to continue without the uncommitted files that a request refused.
fn confirm_uncommitted(
    failure: CommandFailure,
    app: &AppContext<'_>,
    context: &CommandContext<'_>,
) -> Result<(), CommandFailure> {
    let warnings = failure.facts.warnings.as_deref().unwrap_or_default();
    let question = format!("{}\nContinue without them?", warnings.join("\n"));
    match confirm_before_start(&question, app, context)? {
        Confirmation::Yes | Confirmation::NoTerminal => Ok(()),
        Confirmation::No => Err(failure.kind(FailureKind::Declined)),
    }
}

/// Asks whether to trust the file of the repository that a request needs; returns the hash of its
/// content.
fn ask_for_trust(
    failure: CommandFailure,
    app: &AppContext<'_>,
    context: &CommandContext<'_>,
) -> Result<String, CommandFailure> {
    let Some((question, hash)) = consent::question_of(&failure) else {
        return Err(failure);
    };
    match confirm_before_start(&question, app, context)? {
        Confirmation::Yes => Ok(hash),
        Confirmation::No => Err(consent::declined_failure(failure)),
        // Without a terminal there is no consent. The failure names `--trust`.
        Confirmation::NoTerminal => Err(failure),
    }
}

/// Asks a question before there is a plan.
fn confirm_before_start(
    question: &str,
    app: &AppContext<'_>,
    context: &CommandContext<'_>,
) -> Result<Confirmation, CommandFailure> {
    let answer = confirm_unless_interrupted(question, context.environment);
    app.block_on(answer).ok_or_else(|| {
        CommandFailure::new(ExitCode::Interrupted, "interrupted; no plan was created")
            .kind(FailureKind::Interrupted)
    })
}

/// Says what models cost.
fn with_cost(reply: Reply<DriveAnswer>) -> Reply<DriveAnswer> {
    match describe_cost(&reply.answer.cost()) {
        Some(text) => reply.info(text),
        None => reply,
    }
}
