//! Reads automation profile files.

use cleveragents_domain::action::DESCRIPTION_MAXIMUM;
use cleveragents_domain::automation::{RetryLimits, Thresholds};
use cleveragents_domain::{AutomationProfile, BuiltInProfile, Guards, Threshold};
use serde_json::{Value, json};

use super::conversion::DefinitionConversion;
use super::error::{DefinitionErrors, Problems};
use super::record::{FromYaml, LIST_MAXIMUM, record};
use super::version::parse_versioned;
use super::yaml::{DefinitionSource, DefinitionVariables};

record! {
    /// Defines what needs your approval: eleven thresholds, four flags, guards for every tool call.
    #[schemars(
        title = "CleverAgents automation profile",
        extend("examples" = [example()])
    )]
    ProfileFile refusing [
        ("safety", "write `require_sandbox`, `require_checkpoints` and `allow_unsafe_tools` at the top"),
    ] {
        /// The version of this format; 1 if left out.
        #[schemars(range(min = 1, max = 1))]
        version: Option<u64> = "version",
        /// The profile's name, `[[server:]namespace/]name`; not that of a built-in profile.
        #[schemars(length(min = 1))]
        name: String = "name",
        /// The purpose of the profile.
        description: Option<String> = "description",
        /// The confidence needed to continue without approval: 0.0 never asks you, 1.0 always does.
        thresholds: ThresholdsEntry = "thresholds",
        /// Whether resources that cannot be sandboxed are refused. Those that can be always are sandboxed.
        require_sandbox: bool = "require_sandbox",
        /// Whether a plan must be able to restore checkpoints.
        require_checkpoints: bool = "require_checkpoints",
        /// Whether tools marked unsafe may be called.
        allow_unsafe_tools: bool = "allow_unsafe_tools",
        /// Whether a plan may be applied although required checks failed, by `plan apply
        /// --force-checks REASON`; false if left out.
        allow_forced_checks: Option<bool> = "allow_forced_checks",
        /// Restrictions of tool calls.
        guards: Option<GuardsEntry> = "guards",
        /// Limits of retries.
        limits: Option<LimitsEntry> = "limits",
    }
}

record! {
    /// The eleven thresholds, each from 0.0 (never ask) to 1.0 (always ask).
    #[schemars(title = "Thresholds")]
    ThresholdsEntry refusing [] {
        /// Strategize starts right after `plan use`.
        #[schemars(range(min = 0, max = 1))]
        decompose_task: f64 = "decompose_task",
        /// Execute starts when Strategize completes.
        #[schemars(range(min = 0, max = 1))]
        create_tool: f64 = "create_tool",
        /// Apply starts when Execute completes.
        #[schemars(range(min = 0, max = 1))]
        select_tool: f64 = "select_tool",
        /// Decisions in Strategize.
        #[schemars(range(min = 0, max = 1))]
        edit_code: f64 = "edit_code",
        /// Decisions in Execute.
        #[schemars(range(min = 0, max = 1))]
        execute_command: f64 = "execute_command",
        /// Repair of a failed validation.
        #[schemars(range(min = 0, max = 1))]
        create_file: f64 = "create_file",
        /// Reversion from Execute to Strategize.
        #[schemars(range(min = 0, max = 1))]
        delete_content: f64 = "delete_content",
        /// Reversion from Apply to Strategize.
        #[schemars(range(min = 0, max = 1))]
        access_network: f64 = "access_network",
        /// Child plans.
        #[schemars(range(min = 0, max = 1))]
        install_dependency: f64 = "install_dependency",
        /// Retry of transient errors.
        #[schemars(range(min = 0, max = 1))]
        modify_config: f64 = "modify_config",
        /// Restoring a checkpoint.
        #[schemars(range(min = 0, max = 1))]
        approve_plan: f64 = "approve_plan",
    }
}

record! {
    /// Checked before every tool call, whatever the thresholds say.
    #[schemars(title = "Guards")]
    GuardsEntry refusing [] {
        /// Tools that are never called.
        #[schemars(length(max = LIST_MAXIMUM))]
        tool_denylist: Option<Vec<String>> = "tool_denylist",
        /// If not empty, the only tools that are called.
        #[schemars(length(max = LIST_MAXIMUM))]
        tool_allowlist: Option<Vec<String>> = "tool_allowlist",
        /// Maximum number of calls in one step.
        max_tool_calls_per_step: Option<u32> = "max_tool_calls_per_step",
        /// Maximum cost of a plan, in US dollars.
        #[schemars(range(min = 0))]
        max_total_cost: Option<f64> = "max_total_cost",
        /// Whether every call that writes needs your approval; false if left out.
        require_approval_for_writes: Option<bool> = "require_approval_for_writes",
        /// Whether Apply needs your approval; false if left out.
        require_approval_for_apply: Option<bool> = "require_approval_for_apply",
    }
}

record! {
    /// Limits of retries.
    #[schemars(title = "Limits")]
    LimitsEntry refusing [] {
        /// Retries of one step; 3 if left out.
        max_retries_per_step: Option<u32> = "max_retries_per_step",
        /// Attempts to repair a failed validation; 3 if left out.
        validation_retry_limit: Option<u32> = "validation_retry_limit",
    }
}

/// Reads the automation profile in `source`, or returns every problem found. The registry, which
/// knows all names, checks that the name is not built in.
pub fn read_profile(
    source: &DefinitionSource<'_>,
    variables: DefinitionVariables<'_>,
) -> Result<AutomationProfile, DefinitionErrors> {
    let mut problems = Problems::default();
    let profile = read(source, variables, &mut problems);
    problems.into_result(source.name, profile)
}

fn read(
    source: &DefinitionSource<'_>,
    variables: DefinitionVariables<'_>,
    problems: &mut Problems,
) -> Option<AutomationProfile> {
    let node = parse_versioned(source, variables, "an automation profile", problems)?;
    let file = ProfileFile::read(&node, "", problems)?;
    let mut conversion = DefinitionConversion {
        node: &node,
        problems,
    };
    convert_profile(&mut conversion, file)
}

fn convert_profile(
    conversion: &mut DefinitionConversion<'_>,
    file: ProfileFile,
) -> Option<AutomationProfile> {
    let name = conversion.parse("name", &file.name);
    let description = file.description.unwrap_or_default();
    if description.len() > DESCRIPTION_MAXIMUM {
        let what = format!("`description` is longer than {DESCRIPTION_MAXIMUM} bytes");
        conversion.problem("description", what);
    }
    let thresholds = convert_thresholds(conversion, &file.thresholds);
    let guards = match file.guards {
        Some(guards) => convert_guards(conversion, guards),
        None => Some(Guards::default()),
    };
    Some(AutomationProfile {
        name: name?,
        description,
        thresholds: thresholds?,
        require_sandbox: file.require_sandbox,
        require_checkpoints: file.require_checkpoints,
        allow_unsafe_tools: file.allow_unsafe_tools,
        allow_forced_checks: file.allow_forced_checks.unwrap_or_default(),
        guards: guards?,
        limits: limits(file.limits),
    })
}

fn convert_thresholds(
    conversion: &mut DefinitionConversion<'_>,
    entry: &ThresholdsEntry,
) -> Option<Thresholds> {
    let mut threshold = |key: &str, value: f64| {
        let path = format!("thresholds.{key}");
        Threshold::new(value)
            .map_err(|error| conversion.problem(&path, format!("`{path}`: {error}")))
            .ok()
    };
    // Convert all of them before any is missed, so that every problem is recorded.
    let decompose_task = threshold("decompose_task", entry.decompose_task);
    let create_tool = threshold("create_tool", entry.create_tool);
    let select_tool = threshold("select_tool", entry.select_tool);
    let edit_code = threshold("edit_code", entry.edit_code);
    let execute_command = threshold("execute_command", entry.execute_command);
    let create_file = threshold("create_file", entry.create_file);
    let delete_content = threshold("delete_content", entry.delete_content);
    let access_network = threshold("access_network", entry.access_network);
    let install_dependency = threshold("install_dependency", entry.install_dependency);
    let modify_config = threshold("modify_config", entry.modify_config);
    let approve_plan = threshold("approve_plan", entry.approve_plan);
    Some(Thresholds {
        decompose_task: decompose_task?,
        create_tool: create_tool?,
        select_tool: select_tool?,
        edit_code: edit_code?,
        execute_command: execute_command?,
        create_file: create_file?,
        delete_content: delete_content?,
        access_network: access_network?,
        install_dependency: install_dependency?,
        modify_config: modify_config?,
        approve_plan: approve_plan?,
    })
}

fn convert_guards(conversion: &mut DefinitionConversion<'_>, entry: GuardsEntry) -> Option<Guards> {
    let denied = conversion.parse_all(
        "guards.tool_denylist",
        &entry.tool_denylist.unwrap_or_default(),
    );
    let allowed = conversion.parse_all(
        "guards.tool_allowlist",
        &entry.tool_allowlist.unwrap_or_default(),
    );
    match entry.max_total_cost {
        Some(cost) if cost < 0.0 => {
            let path = "guards.max_total_cost";
            conversion.problem(path, format!("`{path}` must be from 0, not {cost}"));
        }
        _ => {}
    }
    Some(Guards {
        tool_denylist: denied?,
        tool_allowlist: allowed?,
        max_tool_calls_per_step: entry.max_tool_calls_per_step,
        max_total_cost: entry.max_total_cost,
        require_approval_for_writes: entry.require_approval_for_writes.unwrap_or_default(),
        require_approval_for_apply: entry.require_approval_for_apply.unwrap_or_default(),
    })
}

fn limits(entry: Option<LimitsEntry>) -> RetryLimits {
    let usual = RetryLimits::default();
    match entry {
        None => usual,
        Some(entry) => RetryLimits {
            max_retries_per_step: entry
                .max_retries_per_step
                .unwrap_or(usual.max_retries_per_step),
            validation_retry_limit: entry
                .validation_retry_limit
                .unwrap_or(usual.validation_retry_limit),
        },
    }
}

/// A profile like the built-in `trusted`, with guards.
fn example() -> Value {
    let thresholds = BuiltInProfile::Trusted.profile().thresholds;
    json!({
        "version": 1,
        "name": "local/night-shift",
        "description": "Executes automatically, within a budget; you apply",
        "thresholds": thresholds,
        "require_sandbox": true,
        "require_checkpoints": true,
        "allow_unsafe_tools": false,
        "guards": {
            "tool_denylist": ["builtin/shell"],
            "max_total_cost": 5.0,
            "require_approval_for_apply": true,
        },
        "limits": {"max_retries_per_step": 2},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<AutomationProfile, String> {
        read_profile(&DefinitionSource::new("p.yaml", text), &|name| {
            (name == "T").then(|| "0.25".to_owned())
        })
        .map_err(|errors| errors.to_string())
    }

    /// A profile's JSON is valid YAML.
    fn to_yaml(profile: &AutomationProfile) -> String {
        serde_saphyr::to_string(profile).unwrap()
    }

    #[test]
    fn every_built_in_reads_back_under_another_name() {
        for built_in in BuiltInProfile::ALL {
            let profile = AutomationProfile {
                name: "team/mine".parse().unwrap(),
                ..built_in.profile()
            };
            assert_eq!(read(&to_yaml(&profile)).as_ref(), Ok(&profile));
        }
        let yaml = serde_saphyr::to_string(&example()).unwrap();
        let profile = read(&yaml).unwrap();
        assert_eq!(read(&to_yaml(&profile)), Ok(profile));
    }

    #[test]
    fn only_guards_and_limits_are_optional() {
        let example = example();
        for key in ["version", "description", "guards", "limits"] {
            let mut less = example.clone();
            less.as_object_mut().unwrap().remove(key);
            let yaml = serde_saphyr::to_string(&less).unwrap();
            assert!(read(&yaml).is_ok(), "{key}");
        }
        for key in [
            "name",
            "thresholds",
            "require_sandbox",
            "require_checkpoints",
        ] {
            let mut less = example.clone();
            less.as_object_mut().unwrap().remove(key);
            let said = read(&serde_saphyr::to_string(&less).unwrap()).unwrap_err();
            assert_eq!(said, format!("p.yaml:1:1: the key `{key}` is missing"));
        }
        let mut less = example;
        less["thresholds"]
            .as_object_mut()
            .unwrap()
            .remove("approve_plan");
        let said = read(&serde_saphyr::to_string(&less).unwrap()).unwrap_err();
        assert!(
            said.contains("the key `approve_plan` of `thresholds` is missing"),
            "{said}"
        );
    }

    #[test]
    fn every_problem_is_reported_at_once() {
        let yaml = "\
name: man ual
description: x
thresholds: {decompose_task: 2, create_tool: '${T}', select_tool: 0, edit_code: 0, execute_command: 0,
  create_file: -0.1, delete_content: 0, access_network: 0, install_dependency: 0, modify_config: 0, approve_plan: 1}
require_sandbox: true
require_checkpoints: true
allow_unsafe_tools: false
guards: {tool_denylist: [a, b c], max_total_cost: -1}
";
        assert_eq!(
            read(yaml).unwrap_err(),
            "p.yaml:1:7: `name`: ` ` is not allowed in the last part of a name: \
             use letters, digits, `-`, `_` and `.`, beginning with a letter or digit\n\
             p.yaml:3:30: `thresholds.decompose_task`: a threshold is a number from 0.0 to 1.0, not 2\n\
             p.yaml:4:16: `thresholds.create_file`: a threshold is a number from 0.0 to 1.0, not -0.1\n\
             p.yaml:8:29: `guards.tool_denylist[1]`: ` ` is not allowed in the last part of a name: \
             use letters, digits, `-`, `_` and `.`, beginning with a letter or digit\n\
             p.yaml:8:51: `guards.max_total_cost` must be from 0, not -1"
        );
    }

    #[test]
    fn the_old_format_and_newer_versions_are_refused() {
        let mut old = example();
        old["safety"] = json!({"require_sandbox": true});
        let said = read(&serde_saphyr::to_string(&old).unwrap()).unwrap_err();
        assert!(
            said.contains("the key `safety` is not supported (write"),
            "{said}"
        );
        let said = read("version: 2\nwhat: ever\n").unwrap_err();
        assert_eq!(
            said,
            "p.yaml:1:10: version 2 of an automation profile is newer than this program, \
             which reads version 1 (use a newer `agents`)"
        );
    }
}
