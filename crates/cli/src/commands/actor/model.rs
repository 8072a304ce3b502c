//! Output of the fields that only actors with a model have.

use cleveragents_domain::{Actor, ActorKind, LlmActor};

use crate::output::{Tone, ViewCell};

/// Number of displayed characters of a system prompt.
const PROMPT_EXCERPT_LENGTH: usize = 200;

pub(super) fn llm(actor: &Actor) -> Option<&LlmActor> {
    match &actor.kind {
        ActorKind::Llm(llm) => Some(llm),
        ActorKind::Tool(_) | ActorKind::Direct => None,
    }
}

/// Returns the panel rows of an actor with a model.
pub(super) fn rows(llm: &LlmActor) -> Vec<(&'static str, ViewCell)> {
    let faint = |text: &str| ViewCell::new(text, Tone::Faint);
    let listed = |names: Option<Vec<String>>, all: &str| match names {
        None => faint(all),
        Some(names) if names.is_empty() => faint("none"),
        Some(names) => names.join(", ").into(),
    };
    let tools = llm.tools.as_ref();
    let tools = tools.map(|tools| tools.iter().map(ToString::to_string).collect());
    let mut rows = vec![(
        "model",
        match &llm.model {
            Some(choice) => choice.to_string().into(),
            None => faint("the configured default"),
        },
    )];
    let options = &llm.options;
    for (key, value) in [
        ("temperature", options.temperature.map(|it| it.to_string())),
        ("top_p", options.top_p.map(|it| it.to_string())),
        ("max_tokens", options.max_tokens.map(|it| it.to_string())),
    ] {
        rows.extend(value.map(|value| (key, ViewCell::from(value))));
    }
    rows.push((
        "tools",
        listed(tools, "every built-in tool that the phase allows"),
    ));
    rows.push((
        "skills",
        listed(llm.skills.clone(), "all skills of the project"),
    ));
    if let Some(prompt) = &llm.system_prompt {
        rows.push(("system prompt", shorten(prompt).into()));
    }
    rows
}

/// Returns the start of a text on one line.
fn shorten(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(PROMPT_EXCERPT_LENGTH) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_prompt_is_cut_and_a_short_one_is_one_line() {
        assert_eq!(shorten("Be brief.\n\n  Be kind.\n"), "Be brief. Be kind.");
        assert_eq!(
            shorten(&"é".repeat(500)).chars().count(),
            PROMPT_EXCERPT_LENGTH + 1
        );
    }
}
