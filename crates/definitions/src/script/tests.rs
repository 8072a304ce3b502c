use super::*;

fn read(text: &str) -> Result<ModelScript, String> {
    let source = DefinitionSource::new("s.yaml", text);
    let variables = |name: &str| (name == "WAIT").then(|| "0.25".to_owned());
    read_script(&source, &variables).map_err(|errors| errors.to_string())
}

#[test]
fn the_example_of_the_schema_is_read() {
    let yaml = serde_saphyr::to_string(&example()).unwrap();
    let script = read(&yaml).unwrap();
    let [limited, looking, finishing] = &script.turns[..] else {
        panic!("{script:?}");
    };
    assert_eq!(
        limited.fault,
        Some(ScriptFault {
            kind: FaultKind::RateLimit,
            retry_after: Some(Duration::from_millis(500)),
        })
    );
    assert_eq!(looking.text, "I look at the file first.");
    assert_eq!(looking.delay, Duration::from_millis(50));
    assert_eq!(looking.usage.unwrap().input_tokens, 900);
    assert_eq!(
        finishing.tool_calls,
        [AnswerToolCall {
            tool: "builtin/finish".to_owned(),
            arguments: r#"{"summary":"Nothing to do."}"#.to_owned(),
        }]
    );
    assert_eq!(script.price, FREE);
}

#[test]
fn a_script_may_set_its_price_and_limits() {
    let text = "\
price: {input: 3, output: 15.5, cached_input: 0.3}
context_tokens: 1000
answer_tokens: 100
turns: [{text: x}]
";
    let script = read(text).unwrap();
    assert_eq!((script.price.input, script.price.output), (3.0, 15.5));
    assert_eq!(script.price.cached_input, Some(0.3));
    assert_eq!((script.context_tokens, script.answer_tokens), (1000, 100));
}

#[test]
fn every_kind_of_fault_is_read_and_variables_are_filled_in() {
    for kind in FaultKind::ALL {
        let text = format!("turns:\n- fault: {{kind: {kind}, retry_after: '${{WAIT}}'}}\n");
        let fault = read(&text).unwrap().turns[0].fault.unwrap();
        assert_eq!(fault.kind, *kind);
        assert_eq!(fault.retry_after, Some(Duration::from_millis(250)));
    }
}

#[test]
fn arguments_may_be_malformed() {
    let text = "turns: [{tool_calls: [{tool: b/c, arguments: '{\"path'}, {tool: ''}]}]\n";
    let calls = read(text).unwrap().turns.remove(0).tool_calls;
    assert_eq!(calls[0].arguments, "{\"path");
    assert_eq!(
        (calls[1].tool.as_str(), calls[1].arguments.as_str()),
        ("", "{}")
    );
}

/// A text, and the expected message.
const BAD: &[(&str, &str)] = &[
    ("", "s.yaml:1:1: the file is empty"),
    (
        "turns: []\n",
        "s.yaml:1:8: a script needs at least one turn",
    ),
    (
        "tuns: []\n",
        "s.yaml:1:1: there is no key `tuns` (did you mean `turns`?)\ns.yaml:1:1: the key `turns` is missing",
    ),
    (
        "turns: {}\n",
        "s.yaml:1:8: `turns` must be a list, not a mapping",
    ),
    (
        "turns:\n  - text: 5\n",
        "s.yaml:2:11: `turns[0].text` must be a text, not the number \"5\" (put it in quotes)",
    ),
    (
        "turns:\n  - {}\n",
        "s.yaml:2:5: `turns[0]`: a turn needs `text`, `tool_calls` or `fault`",
    ),
    (
        "turns:\n  - delay_ms: 5\n",
        "s.yaml:2:5: `turns[0]`: a turn needs `text`, `tool_calls` or `fault`",
    ),
    (
        "turns:\n  - {text: x, delay_ms: 0.5}\n",
        "s.yaml:2:25: `turns[0].delay_ms` must be a whole number from 0 to 9007199254740991, not the number \"0.5\"",
    ),
    (
        "turns:\n  - {text: x, delay_ms: 86400001}\n",
        "s.yaml:2:25: `turns[0].delay_ms` must be 86400000 at most",
    ),
    (
        "turns:\n  - fault: {kind: rate-limit}\n",
        "s.yaml:2:19: `turns[0].fault.kind`: invalid kind of fault `rate-limit`: use rate_limit, \
         timeout, server_error, truncated, malformed_json, slow",
    ),
    (
        "turns:\n  - fault: {kind: slow, retry_after: -1}\n",
        "s.yaml:2:38: `turns[0].fault.retry_after` must be from 0 to 86400 seconds",
    ),
    (
        "turns:\n  - fault: timeout\n",
        "s.yaml:2:12: `turns[0].fault` must be a mapping with keys and values, not the text \"timeout\"",
    ),
    (
        "turns:\n  - text: x\n    fault: {kind: timeout}\n",
        "s.yaml:2:11: `text` does not go with the fault `timeout`: nothing of the answer arrives",
    ),
    (
        "turns:\n  - tool_calls: [{input: {}}]\n",
        "s.yaml:2:18: the key `tool` of `turns[0].tool_calls[0]` is missing",
    ),
    (
        "turns:\n  - tool_calls: [{tool: a, input: {}, arguments: x}]\n",
        "s.yaml:2:50: a call has either `input` or `arguments`, not both",
    ),
    (
        "turns:\n  - tool_calls: [{tool: a, input: [1]}]\n",
        "s.yaml:2:35: `turns[0].tool_calls[0].input` must be a mapping with keys and values, not a list",
    ),
    (
        "turns:\n  - {text: x, usage: {input_tokens: 1}}\n",
        "s.yaml:2:22: the key `output_tokens` of `turns[0].usage` is missing",
    ),
    (
        "price: {input: -1, output: 0}\nturns: [{text: x}]\n",
        "s.yaml:1:16: `price.input` must not be negative",
    ),
    (
        "context_tokens: 0\nturns: [{text: x}]\n",
        "s.yaml:1:17: `context_tokens` must be at least 1",
    ),
    (
        "version: 2\nturns: [{text: x}]\n",
        "s.yaml:1:10: version 2 of a script is newer than this program, which reads version 1 (use a newer `agents`)",
    ),
    (
        "turns: [{text: '${NOPE}'}]\n",
        "s.yaml:1:17: the variable `NOPE` is not set and has no default (set it, or write `${NOPE:DEFAULT}`; write `$${` for a literal `${`)",
    ),
];

#[test]
fn bad_scripts_are_reported_with_positions() {
    for (text, said) in BAD {
        assert_eq!(read(text).unwrap_err(), *said, "{text:?}");
    }
}

#[test]
fn a_script_has_its_own_limit() {
    let turns = "- {text: x}\n".repeat(TURNS_MAXIMUM);
    assert_eq!(
        read(&format!("turns:\n{turns}")).unwrap().turns.len(),
        TURNS_MAXIMUM
    );
    let said = read(&format!("turns:\n{turns}- {{text: x}}\n")).unwrap_err();
    assert!(
        said.contains("`turns` has 10001 entries; a list may have 10000"),
        "{said}"
    );
}
