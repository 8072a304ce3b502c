//! Plans without a model: an actor of type `tool`, an action, a project, and the commands that run
//! them.

use anyhow::{Context, Result, bail};

use super::machine::{CommandOutput, Machine};

/// Continues into Execute without approval and asks before Apply.
pub const PROFILE: &str = "trusted";

/// Creates a project of folders below the machine's root. A folder that is not a repository is
/// registered as a plain folder first, because the machine itself may be inside a repository.
pub fn create_project(machine: &Machine, name: &str, folders: &[&str]) -> Result<()> {
    machine.must_agents(&["project", "create", name])?;
    for folder in folders {
        let path = machine.path(folder);
        let kind = if path.join(".git").exists() {
            "git-checkout"
        } else {
            "fs-directory"
        };
        let resource = format!("local/{folder}");
        machine.must_agents(&[
            "resource",
            "add",
            kind,
            &resource,
            "--path",
            &path.to_string_lossy(),
        ])?;
        machine.must_agents(&["project", "link-resource", name, &resource])?;
    }
    Ok(())
}

/// Defines an actor with these steps and an action of the same name that uses it.
pub fn define(machine: &Machine, name: &str, steps: &str, more: &str) -> Result<()> {
    let indented: String = steps.lines().map(|line| format!("  {line}\n")).collect();
    let actor = format!("name: local/{name}\ntype: tool\ndescription: Works\nsteps:\n{indented}");
    let action = format!(
        "name: local/{name}\ndescription: Do it\nstrategy_actor: builtin/direct\n\
         execution_actor: local/{name}\ndefinition_of_done: It is done\n{more}"
    );
    machine.write(&format!("home/{name}-actor.yaml"), actor.as_bytes())?;
    machine.write(&format!("home/{name}-action.yaml"), action.as_bytes())?;
    machine.must_agents(&[
        "actor",
        "add",
        "--config",
        &format!("{name}-actor.yaml"),
        "--update",
    ])?;
    machine.must_agents(&[
        "action",
        "create",
        "--config",
        &format!("{name}-action.yaml"),
        "--update",
    ])?;
    Ok(())
}

/// Creates a plan and returns its id.
pub fn create_plan(
    machine: &Machine,
    action: &str,
    project: &str,
    profile: &str,
) -> Result<String> {
    let words = [
        "plan",
        "use",
        action,
        project,
        "--automation-profile",
        profile,
    ];
    let made = machine.must_agents(&words)?;
    let id = made.data()["plan_id"].as_str().map(str::to_owned);
    id.context("`plan use` names no plan")
}

pub fn create_executed_plan(machine: &Machine, action: &str, project: &str) -> Result<String> {
    let plan = create_plan(machine, action, project, PROFILE)?;
    let answer = machine.must_agents(&["plan", "execute", &plan])?;
    match position(&answer).as_str() {
        "execute/complete" => Ok(plan),
        other => bail!("the plan is at {other}: {}", answer.summary()),
    }
}

/// Phase and state in an answer.
pub fn position(answer: &CommandOutput) -> String {
    let data = answer.data();
    let part = |key: &str| data[key].as_str().unwrap_or("?").to_owned();
    format!("{}/{}", part("phase"), part("state"))
}

/// The commands that an answer recommends, as arguments without the program.
pub fn hints(answer: &CommandOutput) -> Vec<Vec<String>> {
    let Ok(envelope) = serde_json::from_str::<serde_json::Value>(&answer.stdout) else {
        return Vec::new();
    };
    let messages = envelope["messages"].as_array().cloned().unwrap_or_default();
    let texts = messages
        .iter()
        .filter(|it| it["level"] == "hint")
        .filter_map(|it| it["text"].as_str());
    let errors = envelope["data"]["error"]["hints"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let texts = texts.chain(errors.iter().filter_map(|it| it.as_str()));
    let commands = texts.filter_map(|text| {
        text.split('`')
            .find_map(|it| it.trim().strip_prefix("agents "))
    });
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    commands.map(words).collect()
}

pub fn warnings(answer: &CommandOutput) -> Vec<String> {
    let envelope: serde_json::Value = serde_json::from_str(&answer.stdout).unwrap_or_default();
    let messages = envelope["messages"].as_array().cloned().unwrap_or_default();
    let is_warning = |level: &str| level.starts_with("warn") || level == "error";
    let found = messages
        .iter()
        .filter(|it| it["level"].as_str().is_some_and(is_warning));
    let found = found.filter_map(|it| it["text"].as_str().map(str::to_owned));
    let logged = answer
        .stderr
        .lines()
        .filter(|it| it.to_lowercase().contains("warn"));
    found.chain(logged.map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(stdout: &str) -> CommandOutput {
        CommandOutput {
            code: Some(0),
            stdout: stdout.into(),
            ..CommandOutput::default()
        }
    }

    #[test]
    fn hints_are_read_from_messages_and_errors() {
        let text = r#"{"data": {"error": {"hints": ["run `agents plan resume x` again"]}},
            "messages": [{"level": "hint", "text": "agents plan apply y"}, {"level": "info", "text": "agents z"}]}"#;
        assert_eq!(
            hints(&answer(text)),
            [["plan", "apply", "y"], ["plan", "resume", "x"]]
        );
    }

    #[test]
    fn warnings_and_positions_are_read() {
        let text = r#"{"data": {"phase": "apply", "state": "applied"}, "messages": [{"level": "warning", "text": "w"}]}"#;
        assert_eq!(warnings(&answer(text)), ["w"]);
        assert_eq!(position(&answer(text)), "apply/applied");
    }
}
