//! The commands, one file each.
//!
//! To add a command: a file with an argument struct (its doc comment is the help, with examples in
//! `after_long_help`) and a `run`, a variant of [`Command`] and an arm in each match over it, and a row in
//! a file of `tests/cli/cases/`.

mod action;
mod actor;
mod automation_profile;
mod backup;
mod blame;
mod completions;
mod config;
mod demo;
mod diagnostics;
mod gc;
mod info;
mod init;
mod invariant;
mod last_plan;
mod man;
mod plan;
mod project;
mod resource;
mod restore;
mod run;
mod sandbox;
mod tool;
mod validation;
mod verify_commit;
mod version;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use cleveragents_api::plan::PlanReference;
use cleveragents_api::{Reply, Request};
use cleveragents_app::{App, Handler};

use crate::argument_types::PlanArgument;
use crate::arguments::{Format, GlobalArguments};
use crate::bootstrap::{Bootstrap, Watcher};
use crate::environment::Environment;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputLines};
use crate::plan_lookup::plan_reference;
use crate::reserve;
use crate::settings::{Locations, Settings};

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    Run(run::RunArgs),
    Demo(demo::DemoArgs),
    Init(init::InitArgs),
    Info(info::InfoArgs),
    Diagnostics(diagnostics::DiagnosticsArgs),
    #[command(flatten)]
    LastPlan(last_plan::LastPlanCommand),
    Blame(blame::BlameArgs),
    VerifyCommit(verify_commit::VerifyCommitArgs),
    #[command(subcommand)]
    Action(action::ActionCommand),
    #[command(subcommand)]
    Actor(actor::ActorCommand),
    #[command(subcommand)]
    AutomationProfile(automation_profile::AutomationProfileCommand),
    #[command(subcommand)]
    Invariant(invariant::InvariantCommand),
    #[command(subcommand)]
    Validation(validation::ValidationCommand),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    #[command(subcommand)]
    Plan(plan::PlanCommand),
    #[command(subcommand)]
    Project(project::ProjectCommand),
    #[command(subcommand)]
    Resource(resource::ResourceCommand),
    #[command(subcommand)]
    Sandbox(sandbox::SandboxCommand),
    #[command(subcommand)]
    Tool(tool::ToolCommand),
    Backup(backup::BackupArgs),
    Restore(restore::RestoreArgs),
    Gc(gc::GcArgs),
    Version(version::VersionArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

/// The requirements of a command before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandRequirements {
    /// Nothing: no file is read and nothing is created.
    Nothing,
    /// The settings are read.
    Settings,
    /// The settings are read, and the command may open the database through
    /// [`CommandContext::bootstrap`].
    Store,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputMode {
    /// One answer in the chosen format.
    Answer,
    /// Events as JSON lines while it runs, and the envelope as the last line.
    Events,
}

/// The input of every command.
#[derive(Debug)]
pub struct CommandContext<'a> {
    /// The name under which this process registers, for example `agents backup`.
    pub command: String,
    pub environment: &'a Environment,
    /// Notified of each durable step of an apply.
    pub watcher: Arc<dyn Watcher>,
    pub arguments: &'a GlobalArguments,
    /// An error here fails only the commands that need the settings, so that `config set` and
    /// `config unset` can repair a broken file.
    pub settings: Result<Settings, CommandFailure>,
    /// For commands that write output while they run.
    pub lines: OutputLines,
    /// The format of the answer.
    pub format: Format,
}

impl CommandContext<'_> {
    pub fn settings(&self) -> Result<&Settings, CommandFailure> {
        self.settings.as_ref().map_err(Clone::clone)
    }

    pub fn locations(&self) -> Result<Locations, CommandFailure> {
        Locations::find(self.arguments, self.environment)
    }

    /// Registers this process in the data directory and returns what opens the database. Released
    /// on drop, which must happen before the command returns its answer.
    pub fn bootstrap(&self) -> Result<Bootstrap, CommandFailure> {
        let bootstrap = Bootstrap::announce(self.settings()?, self.environment, &self.command)?;
        Ok(bootstrap.with_watcher(&self.watcher))
    }

    /// Sends a request and returns the reply.
    pub fn call<R: Request>(&self, request: R) -> Result<Reply<R::Answer>, CommandFailure>
    where
        App: Handler<R>,
    {
        let bootstrap = self.bootstrap()?;
        bootstrap.open_for_requests(R::KIND)?.call(request)
    }

    /// Sends a request about the plan that the user named and returns the reply.
    pub fn call_for_plan<R: Request>(
        &self,
        plan: &PlanArgument,
        request: impl FnOnce(PlanReference) -> R,
    ) -> Result<Reply<R::Answer>, CommandFailure>
    where
        App: Handler<R>,
    {
        let bootstrap = self.bootstrap()?;
        let app = bootstrap.open_for_requests(R::KIND)?;
        let plan = plan_reference(&app, plan)?;
        app.call(request(plan))
    }

    /// Sends a request about some plans, in the order of their names, and returns the reply.
    pub fn call_for_plans<'p, R: Request>(
        &self,
        plans: impl IntoIterator<Item = &'p PlanArgument>,
        request: impl FnOnce(Vec<PlanReference>) -> R,
    ) -> Result<Reply<R::Answer>, CommandFailure>
    where
        App: Handler<R>,
    {
        let bootstrap = self.bootstrap()?;
        let app = bootstrap.open_for_requests(R::KIND)?;
        let plans = plans.into_iter().map(|plan| plan_reference(&app, plan));
        let plans = plans.collect::<Result<_, _>>()?;
        app.call(request(plans))
    }

    /// Like [`call`](Self::call), for requests that free space: releases the reserve so that they
    /// work on a full disk.
    pub fn call_for_gc<R: Request>(&self, request: R) -> Result<Reply<R::Answer>, CommandFailure>
    where
        App: Handler<R>,
    {
        let _reserve = reserve::release(&self.settings()?.locations.data_directory);
        self.call(request)
    }

    /// Resolves a path relative to the working directory.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        match &self.environment.working_directory {
            Some(here) => here.join(path),
            None => path.to_owned(),
        }
    }
}

impl Command {
    /// Returns whether the command creates the settings file if there is none.
    pub fn creates_settings(&self) -> bool {
        matches!(self, Self::Init(_))
    }

    pub fn requirements(&self) -> CommandRequirements {
        match self {
            Self::Run(_)
            | Self::Init(_)
            | Self::Info(_)
            | Self::Diagnostics(_)
            | Self::Project(_)
            | Self::Resource(_)
            | Self::Plan(_)
            | Self::LastPlan(_)
            | Self::Blame(_)
            | Self::VerifyCommit(_)
            | Self::Sandbox(_)
            | Self::Backup(_)
            | Self::Restore(_)
            | Self::Gc(_)
            | Self::AutomationProfile(_)
            | Self::Validation(_)
            | Self::Invariant(_) => CommandRequirements::Store,
            Self::Action(command) => command.requirements(),
            Self::Tool(command) => command.requirements(),
            Self::Actor(command) => command.requirements(),
            Self::Config(_) | Self::Demo(_) => CommandRequirements::Settings,
            Self::Version(_) | Self::Completions(_) | Self::Man(_) => CommandRequirements::Nothing,
        }
    }

    pub fn output_mode(&self, format: Format) -> OutputMode {
        match self {
            Self::Run(command) => command.output_mode(format),
            Self::Plan(command) => command.output_mode(format),
            Self::LastPlan(command) => command.output_mode(format),
            _ => OutputMode::Answer,
        }
    }

    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        match self {
            Self::Run(command) => command.run(context),
            Self::Demo(command) => command.run(context),
            Self::Init(command) => command.run(context),
            Self::Info(command) => command.run(context),
            Self::Diagnostics(command) => command.run(context),
            Self::Backup(command) => command.run(context),
            Self::Restore(command) => command.run(context),
            Self::Gc(command) => command.run(context),
            Self::Action(command) => command.run(context),
            Self::Actor(command) => command.run(context),
            Self::AutomationProfile(command) => command.run(context),
            Self::Invariant(command) => command.run(context),
            Self::Validation(command) => command.run(context),
            Self::Config(command) => command.run(context),
            Self::Project(command) => command.run(context),
            Self::Resource(command) => command.run(context),
            Self::Plan(command) => command.run(context),
            Self::LastPlan(command) => command.run(context),
            Self::Blame(command) => command.run(context),
            Self::VerifyCommit(command) => command.run(context),
            Self::Sandbox(command) => command.run(context),
            Self::Tool(command) => command.run(context),
            Self::Version(command) => command.run(),
            Self::Completions(command) => command.run(),
            Self::Man(command) => command.run(),
        }
    }
}
