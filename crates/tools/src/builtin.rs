//! Every built-in tool, by its name.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use cleveragents_domain::NamespacedName;
use cleveragents_domain::name::NameError;
use cleveragents_domain::tool::{Capability, ToolDefinition};
use cleveragents_engine::ports::processes::Processes;
use cleveragents_engine::ports::sandbox::Touched;
use cleveragents_engine::ports::tools::{Call, Tool, ToolFailure, ToolOutput, Toolbox};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::schemas::{SchemaError, Schemas};
use crate::shell::{Shell, ShellSettings};
use crate::{files, folders, history, look, outline, talk};

/// What one built-in tool is and does.
pub(crate) trait Work: Send + Sync + Debug {
    fn describe(&self) -> Description;

    /// Whether an input that matches the schema keeps the bounds a schema had better not state.
    fn check(&self, _input: &Value) -> Result<(), ToolFailure> {
        Ok(())
    }

    fn run(&self, call: &Call<'_>) -> Result<ToolOutput, ToolFailure>;
}

/// A tool's definition before it has its full name.
#[derive(Debug)]
pub(crate) struct Description {
    /// Without the namespace.
    pub(crate) name: &'static str,
    pub(crate) text: String,
    pub(crate) input: Value,
    pub(crate) output: Value,
    pub(crate) capability: Capability,
    pub(crate) timeout_seconds: u64,
}

/// What the tools are given of the world.
#[derive(Debug, Clone)]
pub struct ToolSettings {
    pub shell: ShellSettings,
    /// Who runs commands; without it the shell answers that there is nobody.
    pub processes: Option<Arc<dyn Processes>>,
}

/// The tools of the namespace `builtin`.
#[derive(Debug)]
pub struct BuiltinTools(BTreeMap<NamespacedName, Builtin>);

impl BuiltinTools {
    pub fn new(settings: ToolSettings) -> Result<Self, NameError> {
        let works: Vec<Box<dyn Work>> = vec![
            Box::new(files::read::FileRead),
            Box::new(files::write::FileWrite),
            Box::new(files::edit::FileEdit),
            Box::new(files::transfer::FileMove),
            Box::new(files::copy::FileCopy),
            Box::new(files::delete::FileDelete),
            Box::new(look::list::FileList),
            Box::new(look::search::FileSearch),
            Box::new(outline::Outline::default()),
            Box::new(folders::create::DirCreate),
            Box::new(folders::delete::DirDelete),
            Box::new(history::GitStatus),
            Box::new(history::GitDiff),
            Box::new(history::GitLog),
            Box::new(Shell::new(settings.shell, settings.processes)),
            Box::new(talk::finish::Finish),
            Box::new(talk::strategy::SubmitStrategy),
            Box::new(talk::decision::RecordDecision),
            Box::new(talk::question::AskUser),
        ];
        let tools = works.into_iter().map(|work| {
            let tool = Builtin::new(work)?;
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

/// One tool with its definition, and its schemas from the first time they are asked for.
#[derive(Debug)]
struct Builtin {
    definition: ToolDefinition,
    schemas: OnceLock<Result<Schemas, SchemaError>>,
    work: Box<dyn Work>,
}

impl Builtin {
    fn new(work: Box<dyn Work>) -> Result<Self, NameError> {
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
            schemas: OnceLock::new(),
            work,
        })
    }

    fn schemas(&self) -> Result<&Schemas, ToolFailure> {
        let schemas = self.schemas.get_or_init(|| Schemas::of(&self.definition));
        schemas.as_ref().map_err(|error| failed(error.to_string()))
    }
}

impl Tool for Builtin {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn check_input(&self, input: &Value) -> Result<(), ToolFailure> {
        self.schemas()?.check_input(input)?;
        self.work.check(input)
    }

    fn check_output(&self, output: &ToolOutput) -> Result<(), ToolFailure> {
        self.schemas()?.check_output(output)
    }

    fn run(&self, call: &Call<'_>) -> Result<ToolOutput, ToolFailure> {
        call.stop.check().map_err(stopped)?;
        self.work.run(call)
    }
}

/// The input in the tool's own words. It has matched the schema, so this fails only for a caller
/// that did not check it.
pub(crate) fn input<T: DeserializeOwned>(call: &Call<'_>) -> Result<T, ToolFailure> {
    T::deserialize(call.input).map_err(|error| unusable(error.to_string()))
}

/// A result of a tool that changed nothing.
pub(crate) fn untouched(data: Value) -> ToolOutput {
    let touched = nothing();
    ToolOutput { data, touched }
}

pub(crate) fn nothing() -> Touched {
    Touched::Paths(Vec::new())
}

/// The input can never work.
pub(crate) fn unusable(reason: impl Into<String>) -> ToolFailure {
    let reason = reason.into();
    ToolFailure::Input { reason }
}

/// It does not work as the sandbox is; nothing was changed.
pub(crate) fn failed(reason: impl Into<String>) -> ToolFailure {
    ToolFailure::Failed {
        reason: reason.into(),
        touched: nothing(),
    }
}

/// It was told to stop before it changed anything.
pub(crate) fn stopped(why: cleveragents_engine::ports::Stopped) -> ToolFailure {
    let touched = nothing();
    ToolFailure::Stopped { why, touched }
}
