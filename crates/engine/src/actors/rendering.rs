//! Renders a step of a definition into the call to make.

use std::collections::BTreeMap;

use cleveragents_domain::{ActorStep, NamespacedName};
use serde_json::Value;

use cleveragents_definitions::interpolation::{
    FillError, StepOutputs, TemplateScope, evaluate_bool, fill,
};

/// A step with all templates filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct RenderedStep {
    pub tool: NamespacedName,
    /// The tool's input. Null if the step is skipped, because its templates may refer to missing
    /// values then.
    pub input: Value,
    pub resource: Option<NamespacedName>,
    pub action: StepAction,
}

/// Whether a step runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepAction {
    Run,
    /// The reason, as text.
    Skip(String),
}

/// Renders `step` for a plan with these typed `arguments`, after these `steps`. A hyphen in an
/// argument's name becomes `_`. An argument that was not given is undefined.
pub fn render_step(
    step: &ActorStep,
    arguments: &BTreeMap<String, Value>,
    steps: &StepOutputs,
) -> Result<RenderedStep, FillError> {
    let scope = TemplateScope::default()
        .with_arguments(arguments)
        .with_steps(steps);
    let run = match &step.when {
        Some(when) if !evaluate_bool("when", when, &scope)? => {
            StepAction::Skip(format!("`when` is false: {}", when.trim()))
        }
        _ => StepAction::Run,
    };
    let input = match run {
        StepAction::Run => fill("input", &step.input, &scope)?,
        StepAction::Skip(_) => Value::Null,
    };
    Ok(RenderedStep {
        tool: step.tool.clone(),
        input,
        resource: step.resource.clone(),
        action: run,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn step(json: Value) -> ActorStep {
        serde_json::from_value(json).unwrap()
    }

    fn arguments() -> BTreeMap<String, Value> {
        BTreeMap::from([
            ("file".to_owned(), json!("a.txt")),
            ("max-lines".to_owned(), json!(3)),
        ])
    }

    #[test]
    fn a_step_receives_its_rendered_input() {
        let mut steps = StepOutputs::default();
        steps.record("read", &json!({"content": "a\nb\n", "lines": 2}));
        let rendered = render_step(
            &step(json!({
                "tool": "builtin/file-write",
                "resource": "local/shop",
                "when": "steps.read.lines < args.max_lines",
                "input": {
                    "path": "{{ args.file }}",
                    "content": "{{ steps.read.content }}",
                    "limit": "{{ args.max_lines }}",
                    "note": "{{ args.max_lines }} at most",
                },
            })),
            &arguments(),
            &steps,
        );
        assert_eq!(
            rendered,
            Ok(RenderedStep {
                tool: "builtin/file-write".parse().unwrap(),
                input: json!({
                    "path": "a.txt", "content": "a\nb\n", "limit": 3, "note": "3 at most",
                }),
                resource: Some("local/shop".parse().unwrap()),
                action: StepAction::Run,
            })
        );
    }

    #[test]
    fn a_skipped_step_has_no_input() {
        let mut steps = StepOutputs::default();
        steps.skip("read");
        let skipped = step(json!({
            "tool": "a/b",
            "when": " not steps.read is skipped\n",
            "input": {"content": "{{ steps.read.content }}"},
        }));
        let rendered = render_step(&skipped, &arguments(), &steps).unwrap();
        assert_eq!(
            rendered.action,
            StepAction::Skip("`when` is false: not steps.read is skipped".to_owned())
        );
        assert_eq!(rendered.input, Value::Null);
    }

    #[test]
    fn an_unknown_variable_is_an_error() {
        let steps = StepOutputs::default();
        for (json, said) in [
            (
                json!({"tool": "a/b", "input": {"x": "{{ args.flie }}"}}),
                "`input.x`, line 1: there is no `args.flie`; did you mean `args.file`? \
                 Known are args.file, args.max_lines",
            ),
            (
                json!({"tool": "a/b", "when": "args.max_lines"}),
                "`when` must give true or false, not the value 3",
            ),
            (
                json!({"tool": "a/b", "when": "steps.read.ok"}),
                "`when`, line 1: there is no `steps.read`; nothing is known there",
            ),
        ] {
            let error = render_step(&step(json), &arguments(), &steps).unwrap_err();
            assert_eq!(error.to_string(), said);
        }
    }
}
