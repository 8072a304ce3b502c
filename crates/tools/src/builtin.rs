//! All built-in tools by name.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use cleveragents_domain::NamespacedName;
use cleveragents_domain::name::NameError;
use cleveragents_domain::tool::{Capability, ToolDefinition};
use cleveragents_ports::processes::Processes;
use cleveragents_ports::sandbox::TouchedPaths;
use cleveragents_ports::tools::{Tool, ToolFailure, ToolInvocation, ToolOutput, Toolbox};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::schemas::{SchemaError, Schemas};
use crate::shell::{Shell, ShellSettings};
use crate::{browse, control_tools, files, folders, history, outline};

/// The description and implementation of one built-in tool.
pub(crate) trait ToolImpl: Send + Sync + Debug {
    fn describe(&self) -> ToolDescription;

    /// Checks limits of an input that matches the schema. They are not in the schema on purpose, see
    /// `control_tools`.
    fn check(&self, _input: &Value) -> Result<(), ToolFailure> {
        Ok(())
    }

    fn run(&self, call: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure>;
}

/// A tool's definition before it has its full name.
#[derive(Debug)]
pub(crate) struct ToolDescription {
    /// Without the namespace.
    pub(crate) name: &'static str,
    pub(crate) text: String,
    pub(crate) input: Value,
    pub(crate) output: Value,
    pub(crate) capability: Capability,
    pub(crate) timeout_seconds: u64,
}

/// External dependencies of the tools.
#[derive(Debug, Clone)]
pub struct ToolSettings {
    pub shell: ShellSettings,
    /// Runs commands. Without it every shell call fails.
    pub processes: Option<Arc<dyn Processes>>,
}

#[derive(Debug)]
pub struct BuiltinTools(BTreeMap<NamespacedName, BuiltinTool>);

impl BuiltinTools {
    pub fn new(settings: ToolSettings) -> Result<Self, NameError> {
        let implementations: Vec<Box<dyn ToolImpl>> = vec![
            Box::new(files::read::FileRead),
            Box::new(files::write::FileWrite),
            Box::new(files::edit::FileEdit),
            Box::new(files::relocate::FileMove),
            Box::new(files::copy::FileCopy),
            Box::new(files::delete::FileDelete),
            Box::new(browse::list::FileList),
            Box::new(browse::search::FileSearch),
            Box::new(outline::Outline::default()),
            Box::new(folders::create::DirCreate),
            Box::new(folders::delete::DirDelete),
            Box::new(history::GitStatus),
            Box::new(history::GitDiff),
            Box::new(history::GitLog),
            Box::new(Shell::new(settings.shell, settings.processes)),
            Box::new(control_tools::finish::FinishTool),
            Box::new(control_tools::strategy::SubmitStrategyTool),
            Box::new(control_tools::decision::RecordDecisionTool),
            Box::new(control_tools::question::AskUserTool),
        ];
        let tools = implementations.into_iter().map(|work| {
            let tool = BuiltinTool::new(work)?;
            Ok((tool.definition.name.clone(), tool))
        });
        Ok(Self(tools.collect::<Result<_, NameError>>()?))
    }
}

impl Toolbox for BuiltinTools {
    fn definitions(&self) -> Vec<&ToolDefinition> {
        self.0.values().map(|tool| &tool.definition).collect()
    }

    fn tool(&self, name: &NamespacedName) -> Option<&dyn Tool> {
        self.0.get(name).map(|tool| tool as &dyn Tool)
    }
}

/// A tool with its definition, and its schemas, which are compiled on first use.
#[derive(Debug)]
struct BuiltinTool {
    definition: ToolDefinition,
    schemas: OnceLock<Result<Schemas, SchemaError>>,
    implementation: Box<dyn ToolImpl>,
}

impl BuiltinTool {
    fn new(work: Box<dyn ToolImpl>) -> Result<Self, NameError> {
        let description = work.describe();
        Ok(Self {
            definition: ToolDefinition {
                name: format!("builtin/{}", description.name).parse()?,
                description: description.text,
                input_schema: description.input,
                output_schema: description.output,
                capability: description.capability,
                timeout_seconds: description.timeout_seconds,
            },
            // Compiling all schemas at the start would delay commands that call no tool.
            schemas: OnceLock::new(),
            implementation: work,
        })
    }

    fn schemas(&self) -> Result<&Schemas, ToolFailure> {
        let schemas = self
            .schemas
            .get_or_init(|| Schemas::compile(&self.definition));
        schemas.as_ref().map_err(|error| failed(error.to_string()))
    }
}

impl Tool for BuiltinTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn check_input(&self, input: &Value) -> Result<(), ToolFailure> {
        self.schemas()?.check_input(input)?;
        self.implementation.check(input)
    }

    fn check_output(&self, output: &ToolOutput) -> Result<(), ToolFailure> {
        self.schemas()?.check_output(output)
    }

    fn run(&self, call: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
        // Checked here once for all tools: a call may have waited for its sandbox.
        call.stop.check().map_err(stopped)?;
        self.implementation.run(call)
    }
}

/// Deserialises the input. It has matched the schema, so this fails only for a caller that did not
/// check it.
pub(crate) fn parse_input<T: DeserializeOwned>(
    call: &ToolInvocation<'_>,
) -> Result<T, ToolFailure> {
    T::deserialize(call.input).map_err(|error| invalid_input(error.to_string()))
}

/// The result of a tool that changed nothing.
pub(crate) fn read_only_output(data: Value) -> ToolOutput {
    let touched = no_paths();
    ToolOutput { data, touched }
}

pub(crate) fn no_paths() -> TouchedPaths {
    TouchedPaths::Paths(Vec::new())
}

/// For an input that can never work.
pub(crate) fn invalid_input(reason: impl Into<String>) -> ToolFailure {
    let reason = reason.into();
    ToolFailure::Input { reason }
}

/// For a call that does not work in the current state of the sandbox. Nothing was changed.
pub(crate) fn failed(reason: impl Into<String>) -> ToolFailure {
    ToolFailure::Failed {
        reason: reason.into(),
        touched: no_paths(),
    }
}

/// For a call that was stopped before it changed anything.
pub(crate) fn stopped(why: cleveragents_ports::StopReason) -> ToolFailure {
    let touched = no_paths();
    ToolFailure::Stopped { why, touched }
}
