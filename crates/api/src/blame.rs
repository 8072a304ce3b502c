//! The origin of the lines of a file.

use std::path::PathBuf;

use cleveragents_domain::apply_record::ApplyDirection;
use cleveragents_domain::id::{DecisionId, PlanId, ToolCallId};
use cleveragents_domain::line_range::LineRange;
use cleveragents_domain::{AbsolutePath, NamespacedName, ResourcePath, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Request, RequestKind};

/// Shows which plan, decision and tool call wrote each line of a file.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Blame {
    /// The whole path of a file in a git repository.
    pub file: PathBuf,
    /// Only these lines.
    #[serde(default)]
    pub lines: Option<LineRange>,
}

impl Request for Blame {
    type Answer = BlamedFile;
    const NAME: &'static str = "blame";
    const KIND: RequestKind = RequestKind::Read;
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct BlamedFile {
    /// The folder of the working tree.
    pub repository: AbsolutePath,
    pub path: ResourcePath,
    /// In order.
    pub lines: Vec<BlamedFileLine>,
}

/// One line and its origin.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct BlamedFileLine {
    /// Counted from 1.
    pub line: u32,
    pub text: String,
    /// The commit that wrote the line; `null` if it is not committed.
    pub commit: Option<LineCommit>,
    /// The plan whose apply made that commit; `null` if it is a commit of others.
    pub plan: Option<LinePlan>,
    /// The decision of the step in which the call was made.
    pub decision: Option<LineDecision>,
    /// The call that wrote the line; `null` if it is not known.
    pub call: Option<LineCall>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct LineCommit {
    pub id: String,
    pub author: String,
    /// The author time.
    pub at: Timestamp,
    /// The first line of its message.
    pub subject: String,
    /// The path of the file in that commit.
    pub path: ResourcePath,
    /// The number of the line there.
    pub line: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct LinePlan {
    pub plan_id: PlanId,
    /// `null` if the plan is not in this database.
    pub name: Option<NamespacedName>,
    /// Whether the commit applies the plan or reverses it. `null` if no recorded apply made this
    /// commit: it only carries the trailer of one.
    pub direction: Option<ApplyDirection>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct LineDecision {
    pub decision_id: DecisionId,
    pub question: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct LineCall {
    pub tool_call_id: ToolCallId,
    /// Its number among the calls of the plan.
    pub number: i64,
    pub tool: NamespacedName,
    pub actor: NamespacedName,
    /// The step of the strategy, counted from 1.
    pub step: Option<u32>,
}
