//! Guards: checked before every tool call, in a fixed order, independent of the thresholds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::NamespacedName;
use crate::tool::ToolAccess;

/// Restrictions on a plan's tool calls.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Guards {
    pub tool_denylist: Vec<NamespacedName>,
    /// If empty, every tool that is not denied is allowed.
    pub tool_allowlist: Vec<NamespacedName>,
    pub max_tool_calls_per_step: Option<u32>,
    /// In US dollars, over the whole plan.
    pub max_total_cost: Option<f64>,
    pub require_approval_for_writes: bool,
    pub require_approval_for_apply: bool,
}

/// Whether the user approved this particular call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approval {
    Given,
    Missing,
}

/// A tool call that is about to start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GuardedCall<'a> {
    pub tool: &'a NamespacedName,
    pub access: ToolAccess,
    /// The number of calls already made in this step, without this one.
    pub calls_so_far: u32,
    /// The plan's cost so far, in US dollars.
    pub cost_so_far: f64,
    pub approval: Approval,
}

/// The guard that refused a call.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GuardRefusal {
    #[error("the tool {tool} is on the profile's denylist")]
    Denied { tool: NamespacedName },
    #[error("the tool {tool} is not on the profile's allowlist")]
    NotAllowed { tool: NamespacedName },
    #[error("this step has made {calls} tool calls, and its limit is {limit}")]
    TooManyCalls { calls: u32, limit: u32 },
    #[error("the plan has cost {cost:.2} USD, and its limit is {limit:.2}")]
    CostLimit { cost: f64, limit: f64 },
    #[error("the tool {tool} writes; the profile requires your approval for that")]
    WriteNeedsApproval { tool: NamespacedName },
}

impl Guards {
    /// Permits `call`, or returns the first guard that refuses it. The order is denylist,
    /// allowlist, calls, budget, writes. No call applies changes: `require_approval_for_apply` is
    /// checked at the end of Execute.
    pub fn check(&self, call: &GuardedCall<'_>) -> Result<(), GuardRefusal> {
        let tool = || call.tool.clone();
        if self.tool_denylist.contains(call.tool) {
            return Err(GuardRefusal::Denied { tool: tool() });
        }
        if !self.tool_allowlist.is_empty() && !self.tool_allowlist.contains(call.tool) {
            return Err(GuardRefusal::NotAllowed { tool: tool() });
        }
        self.check_limits(call)?;
        match (call.access, call.approval) {
            (ToolAccess::Writes, Approval::Missing) if self.require_approval_for_writes => {
                Err(GuardRefusal::WriteNeedsApproval { tool: tool() })
            }
            _ => Ok(()),
        }
    }

    fn check_limits(&self, call: &GuardedCall<'_>) -> Result<(), GuardRefusal> {
        let calls = call.calls_so_far;
        let cost = call.cost_so_far;
        match (self.max_tool_calls_per_step, self.max_total_cost) {
            (Some(limit), _) if calls >= limit => Err(GuardRefusal::TooManyCalls { calls, limit }),
            (_, Some(limit)) if cost >= limit => Err(GuardRefusal::CostLimit { cost, limit }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(text: &str) -> NamespacedName {
        text.parse().unwrap()
    }

    fn call(tool: &NamespacedName, access: ToolAccess) -> GuardedCall<'_> {
        GuardedCall {
            tool,
            access,
            calls_so_far: 5,
            cost_so_far: 10.0,
            approval: Approval::Missing,
        }
    }

    #[test]
    fn without_guards_everything_passes() {
        let shell = tool("builtin/shell");
        for access in [ToolAccess::ReadOnly, ToolAccess::Writes] {
            assert_eq!(Guards::default().check(&call(&shell, access)), Ok(()));
        }
    }

    /// The call violates every guard at once; removing them one by one shows their order.
    #[test]
    fn guards_are_checked_in_order() {
        let shell = tool("builtin/shell");
        let mut guards = Guards {
            tool_denylist: vec![shell.clone()],
            tool_allowlist: vec![tool("builtin/file-read")],
            max_tool_calls_per_step: Some(5),
            max_total_cost: Some(5.0),
            require_approval_for_writes: true,
            require_approval_for_apply: true,
        };
        let write = call(&shell, ToolAccess::Writes);
        let refused = |guards: &Guards| guards.check(&write).unwrap_err();
        assert!(matches!(refused(&guards), GuardRefusal::Denied { .. }));
        guards.tool_denylist.clear();
        assert!(matches!(refused(&guards), GuardRefusal::NotAllowed { .. }));
        guards.tool_allowlist.push(shell.clone());
        assert_eq!(
            refused(&guards),
            GuardRefusal::TooManyCalls { calls: 5, limit: 5 }
        );
        guards.max_tool_calls_per_step = Some(6);
        assert_eq!(
            refused(&guards).to_string(),
            "the plan has cost 10.00 USD, and its limit is 5.00"
        );
        guards.max_total_cost = Some(10.01);
        assert!(matches!(
            refused(&guards),
            GuardRefusal::WriteNeedsApproval { .. }
        ));
        guards.require_approval_for_writes = false;
        assert_eq!(guards.check(&write), Ok(()));
    }

    #[test]
    fn an_approval_allows_writes() {
        let shell = tool("builtin/shell");
        let guards = Guards {
            require_approval_for_writes: true,
            ..Guards::default()
        };
        let approved = GuardedCall {
            approval: Approval::Given,
            ..call(&shell, ToolAccess::Writes)
        };
        assert_eq!(guards.check(&approved), Ok(()));
        let read = call(&shell, ToolAccess::ReadOnly);
        assert_eq!(guards.check(&read), Ok(()));
    }
}
