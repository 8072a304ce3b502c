//! Reads scripts of scripted models.

use std::time::Duration;

use cleveragents_domain::model::{AnswerToolCall, Usage};
use cleveragents_domain::script::{
    FaultKind, ModelScript, ScriptFault, ScriptTurn, TURNS_MAXIMUM, WAIT_MAXIMUM,
};
use serde_json::{Map, Value, json};

use super::conversion::DefinitionConversion;
use super::error::{DefinitionErrors, Problems};
use super::price::{FREE, PriceEntry, convert_price};
use super::record::{FromYaml, JsonTree, LongList, record};
use super::version::parse_versioned;
use super::yaml::{DefinitionSource, DefinitionVariables};

/// Default context size of a scripted model.
const CONTEXT_TOKENS: u64 = 128_000;
const ANSWER_TOKENS: u64 = 8_192;

record! {
    /// The answers of a scripted model, one turn per request.
    #[schemars(title = "CleverAgents script", extend("examples" = [example()]))]
    ScriptFile refusing [] {
        /// The version of this format; 1 if left out.
        #[schemars(range(min = 1, max = 1))]
        version: Option<u64> = "version",
        /// The answer to each request, retries included; a request past the last turn is an error.
        #[schemars(length(min = 1, max = TURNS_MAXIMUM))]
        turns: LongList<TurnEntry, TURNS_MAXIMUM> = "turns",
        /// The price of the model; free if left out.
        price: Option<PriceEntry> = "price",
        /// Maximum number of tokens of request and answer together.
        #[schemars(range(min = 1))]
        context_tokens: Option<u64> = "context_tokens",
        /// Maximum number of tokens of an answer.
        #[schemars(range(min = 1))]
        answer_tokens: Option<u64> = "answer_tokens",
    }
}

record! {
    /// An answer, a fault, or an answer that is interrupted by a fault.
    #[schemars(title = "Turn")]
    TurnEntry refusing [] {
        /// The model's text.
        text: Option<String> = "text",
        /// The tools it asks for.
        tool_calls: Option<Vec<CallEntry>> = "tool_calls",
        /// The reported usage; computed if left out.
        usage: Option<UsageEntry> = "usage",
        /// Delay before the first part of the answer, in milliseconds.
        #[schemars(range(max = WAIT_MAXIMUM * 1000))]
        delay_ms: Option<u64> = "delay_ms",
        /// The failure of the turn.
        fault: Option<FaultEntry> = "fault",
    }
}

record! {
    /// A call of a tool.
    #[schemars(title = "Call")]
    CallEntry refusing [] {
        /// The tool's name, such as `builtin/file-read`; it need not be one that exists.
        tool: String = "tool",
        /// The input of the tool.
        input: Option<JsonTree> = "input",
        /// The raw input of the tool; it need not be JSON.
        arguments: Option<String> = "arguments",
    }
}

record! {
    /// Tokens.
    #[schemars(title = "Usage")]
    UsageEntry refusing [] {
        /// All that was read.
        input_tokens: u64 = "input_tokens",
        /// All that was written.
        output_tokens: u64 = "output_tokens",
        /// Number of input tokens read from a cache.
        cached_tokens: Option<u64> = "cached_tokens",
        /// Number of input tokens written to a cache.
        cache_written_tokens: Option<u64> = "cache_written_tokens",
    }
}

record! {
    /// A way to fail.
    #[schemars(title = "Fault")]
    FaultEntry refusing [] {
        /// The kind of failure.
        #[schemars(extend("enum" = FaultKind::ALL))]
        kind: String = "kind",
        /// The delay before a retry, in seconds; for `slow`, the pause before each part.
        #[schemars(range(min = 0, max = WAIT_MAXIMUM))]
        retry_after: Option<f64> = "retry_after",
    }
}

/// Reads the script in `source`, or returns every problem found.
pub fn read_script(
    source: &DefinitionSource<'_>,
    variables: DefinitionVariables<'_>,
) -> Result<ModelScript, DefinitionErrors> {
    let mut problems = Problems::default();
    let script = read(&source.without_storing(), variables, &mut problems);
    problems.into_result(source.name, script)
}

fn read(
    source: &DefinitionSource<'_>,
    variables: DefinitionVariables<'_>,
    problems: &mut Problems,
) -> Option<ModelScript> {
    let node = parse_versioned(source, variables, "a script", problems)?;
    let file = ScriptFile::read(&node, "", problems)?;
    let mut conversion = DefinitionConversion {
        node: &node,
        problems,
    };
    convert_script(&mut conversion, file)
}

fn convert_script(
    conversion: &mut DefinitionConversion<'_>,
    file: ScriptFile,
) -> Option<ModelScript> {
    if file.turns.0.is_empty() {
        conversion.problem("turns", "a script needs at least one turn");
    }
    conversion.check_at_least_one("context_tokens", file.context_tokens);
    conversion.check_at_least_one("answer_tokens", file.answer_tokens);
    let price = match file.price {
        None => Some(FREE),
        Some(entry) => convert_price(conversion, "price", &entry),
    };
    let turns = conversion.convert_all("turns", file.turns.0, convert_turn);
    Some(ModelScript {
        turns: turns?,
        price: price?,
        context_tokens: file.context_tokens.unwrap_or(CONTEXT_TOKENS),
        answer_tokens: file.answer_tokens.unwrap_or(ANSWER_TOKENS),
    })
}

fn convert_turn(
    conversion: &mut DefinitionConversion<'_>,
    path: &str,
    entry: TurnEntry,
) -> Option<ScriptTurn> {
    let given = [
        ("text", entry.text.is_some()),
        ("tool_calls", entry.tool_calls.is_some()),
        ("usage", entry.usage.is_some()),
    ];
    let is_answer = entry.text.is_some() || entry.tool_calls.is_some();
    let fault = match &entry.fault {
        None => None,
        Some(fault) => Some(convert_fault(conversion, &format!("{path}.fault"), fault)?),
    };
    match fault {
        None if !is_answer => {
            let what = "a turn needs `text`, `tool_calls` or `fault`";
            conversion.problem(path, format!("`{path}`: {what}"));
        }
        Some(ScriptFault { kind, .. }) if !kind.has_parts() => {
            for (key, _) in given.into_iter().filter(|(_, given)| *given) {
                let what = format!(
                    "`{key}` does not go with the fault `{kind}`: nothing of the answer arrives"
                );
                conversion.problem(&format!("{path}.{key}"), what);
            }
        }
        _ => {}
    }
    let delay = entry.delay_ms.unwrap_or(0);
    if delay > WAIT_MAXIMUM * 1000 {
        let path = format!("{path}.delay_ms");
        conversion.problem(
            &path,
            format!("`{path}` must be {} at most", WAIT_MAXIMUM * 1000),
        );
    }
    Some(ScriptTurn {
        text: entry.text.unwrap_or_default(),
        tool_calls: convert_calls(conversion, path, entry.tool_calls.unwrap_or_default()),
        usage: entry.usage.map(|usage| usage.usage()),
        delay: Duration::from_millis(delay),
        fault,
    })
}

fn convert_calls(
    conversion: &mut DefinitionConversion<'_>,
    path: &str,
    entries: Vec<CallEntry>,
) -> Vec<AnswerToolCall> {
    let convert = |(index, entry): (usize, CallEntry)| {
        if entry.input.is_some() && entry.arguments.is_some() {
            let path = format!("{path}.tool_calls[{index}].arguments");
            conversion.problem(&path, "a call has either `input` or `arguments`, not both");
        }
        let input = entry.input.map_or_else(Map::new, |tree| tree.0);
        AnswerToolCall {
            tool: entry.tool,
            arguments: entry
                .arguments
                .unwrap_or_else(|| Value::Object(input).to_string()),
        }
    };
    entries.into_iter().enumerate().map(convert).collect()
}

fn convert_fault(
    conversion: &mut DefinitionConversion<'_>,
    path: &str,
    entry: &FaultEntry,
) -> Option<ScriptFault> {
    let kind = conversion.parse(&format!("{path}.kind"), &entry.kind);
    let retry_after = match entry.retry_after {
        None => Some(None),
        Some(seconds) => {
            #[expect(clippy::cast_precision_loss, reason = "a day has few seconds")]
            let fits = (0.0..=WAIT_MAXIMUM as f64).contains(&seconds);
            if !fits {
                let path = format!("{path}.retry_after");
                let what = format!("`{path}` must be from 0 to {WAIT_MAXIMUM} seconds");
                conversion.problem(&path, what);
            }
            fits.then(|| Some(Duration::from_secs_f64(seconds)))
        }
    };
    Some(ScriptFault {
        kind: kind?,
        retry_after: retry_after?,
    })
}

impl UsageEntry {
    fn usage(&self) -> Usage {
        Usage {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            cached_tokens: self.cached_tokens.unwrap_or(0),
            cache_written_tokens: self.cache_written_tokens.unwrap_or(0),
        }
    }
}

/// A small script that uses every key.
fn example() -> Value {
    json!({
        "version": 1,
        "turns": [
            {"fault": {"kind": "rate_limit", "retry_after": 0.5}},
            {
                "text": "I look at the file first.",
                "tool_calls": [{"tool": "builtin/file-read", "input": {"path": "README.md"}}],
                "usage": {"input_tokens": 900, "output_tokens": 40},
                "delay_ms": 50,
            },
            {"tool_calls": [{"tool": "builtin/finish", "input": {"summary": "Nothing to do."}}]},
        ],
    })
}

#[cfg(test)]
mod tests;
