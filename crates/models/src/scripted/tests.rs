use std::path::Path;

use cleveragents_definitions::{DefinitionSource, SOURCE_MAXIMUM, read_script};
use futures_util::StreamExt as _;
use tokio::time::Instant;

use super::*;
use crate::wire::stream_checks::bare_request;

fn settings(folder: &Path) -> ScriptSettings {
    ScriptSettings {
        folder: folder.to_owned(),
        size_maximum: SOURCE_MAXIMUM as u64,
        parse: Arc::new(|name, bytes| {
            let source = DefinitionSource::new(name, bytes);
            read_script(&source, &|_| None).map_err(|errors| errors.to_string())
        }),
    }
}

fn open(script: &str) -> Result<ScriptedModel, ModelError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script.yaml");
    std::io::Write::write_all(&mut File::create(path).unwrap(), script.as_bytes()).unwrap();
    let choice = "scripted/script.yaml".parse().unwrap();
    ScriptedModel::open(&choice, &settings(folder.path()))
}

async fn request_turn(model: &ScriptedModel, ordinal: u64) -> (Vec<Delta>, Option<ModelError>) {
    let (mut deltas, mut error) = (Vec::new(), None);
    let mut stream = model.stream(&bare_request(), ordinal);
    while let Some(part) = stream.next().await {
        assert_eq!(error, None, "something follows an error");
        match part {
            Ok(delta) => deltas.push(delta),
            Err(found) => error = Some(found),
        }
    }
    (deltas, error)
}

fn text_of(deltas: &[Delta]) -> String {
    let text = |delta: &Delta| match delta {
        Delta::Text(text) => Some(text.clone()),
        _ => None,
    };
    deltas.iter().filter_map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn each_ordinal_always_gets_the_same_turn() {
    let model = open(
        "turns:\n\
         - {text: 'The first answer has a text of some length, é.', usage: {input_tokens: 7, output_tokens: 3}}\n\
         - {tool_calls: [{tool: b/one, input: {x: 1}}, {tool: b/two}], delay_ms: 1500}\n",
    )
    .unwrap();
    for _ in 0..2 {
        let (deltas, error) = request_turn(&model, 0).await;
        assert_eq!(error, None);
        assert_eq!(
            text_of(&deltas),
            "The first answer has a text of some length, é."
        );
        assert!(deltas.len() > 3, "a text comes in parts");
        let used = Usage {
            input_tokens: 7,
            output_tokens: 3,
            ..Usage::default()
        };
        assert_eq!(deltas[deltas.len() - 2], Delta::Usage(used));
        assert_eq!(deltas.last(), Some(&Delta::Finished(FinishReason::Stop)));
    }
    let started = Instant::now();
    let (deltas, error) = request_turn(&model, 1).await;
    assert_eq!((error, started.elapsed().as_millis()), (None, 1500));
    let calls: Vec<&Delta> = deltas
        .iter()
        .filter(|it| matches!(it, Delta::ToolCall { .. }))
        .collect();
    assert_eq!(calls.len(), 4);
    let Delta::Usage(used) = deltas[deltas.len() - 2] else {
        panic!("{deltas:?}")
    };
    assert!(used.input_tokens > 0 && used.output_tokens > 0);
    assert_eq!(
        deltas.last(),
        Some(&Delta::Finished(FinishReason::ToolCalls))
    );
}

#[tokio::test]
async fn a_request_past_the_end_fails_permanently() {
    let model = open("turns: [{text: x}]\n").unwrap();
    let (deltas, error) = request_turn(&model, 1).await;
    let error = error.unwrap();
    assert_eq!(deltas, []);
    assert_eq!(
        error.message,
        "the script script.yaml has 1 turn and was asked for turn 2"
    );
    assert!(!error.kind.is_transient());
}

fn expected_error_kind(fault: FaultKind) -> Option<ModelErrorKind> {
    match fault {
        FaultKind::RateLimit => Some(ModelErrorKind::RateLimit),
        FaultKind::Timeout => Some(ModelErrorKind::Timeout),
        FaultKind::ServerError => Some(ModelErrorKind::Server),
        FaultKind::Truncated => Some(ModelErrorKind::Truncated),
        FaultKind::MalformedJson => Some(ModelErrorKind::Malformed),
        FaultKind::Slow => None,
    }
}

/// Every fault at every turn: only that turn fails, and with that fault.
#[tokio::test(start_paused = true)]
async fn every_fault_affects_only_its_turn() {
    const TURNS: u64 = 4;
    for fault in FaultKind::ALL {
        for place in 0..TURNS {
            let turn = |index| {
                if index == place {
                    format!("- fault: {{kind: {fault}, retry_after: 0.5}}\n")
                } else {
                    format!("- text: answer {index}\n")
                }
            };
            let turns: String = (0..TURNS).map(turn).collect();
            let model = open(&format!("turns:\n{turns}")).unwrap();
            for ordinal in 0..TURNS {
                let started = Instant::now();
                let (deltas, error) = request_turn(&model, ordinal).await;
                let finished = matches!(deltas.last(), Some(Delta::Finished(_)));
                assert_eq!(finished, error.is_none(), "{fault} at {place}");
                let expected = expected_error_kind(*fault).filter(|_| ordinal == place);
                assert_eq!(error.as_ref().map(|it| it.kind), expected);
                if let Some(error) = error {
                    assert_eq!(error.retry_after, Some(Duration::from_millis(500)));
                    assert!(error.kind.is_transient());
                    assert_eq!(deltas.is_empty(), !fault.has_parts(), "{fault}");
                    assert!(started.elapsed().is_zero());
                }
                if ordinal != place {
                    assert_eq!(text_of(&deltas), format!("answer {ordinal}"));
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_pauses_before_every_part() {
    for (turn, pause) in [
        ("{fault: {kind: slow, retry_after: 2}}", 2000),
        ("{text: x, delay_ms: 30, fault: {kind: slow}}", 30),
        ("{fault: {kind: slow}}", 100),
    ] {
        let model = open(&format!("turns: [{turn}]\n")).unwrap();
        let started = Instant::now();
        let (deltas, error) = request_turn(&model, 0).await;
        assert_eq!(error, None);
        let parts = u128::try_from(deltas.len()).unwrap();
        assert_eq!(started.elapsed().as_millis(), parts * pause, "{turn}");
    }
}

#[tokio::test]
async fn a_truncated_answer_delivers_its_first_half() {
    let text = "The quick brown fox jumps over the lazy dog, again and again and again.";
    for kind in ["truncated", "malformed_json"] {
        let model = open(&format!(
            "turns: [{{text: '{text}', fault: {{kind: {kind}}}}}]\n"
        ))
        .unwrap();
        let (deltas, error) = request_turn(&model, 0).await;
        assert!(error.is_some());
        let arrived = text_of(&deltas);
        assert!(text.starts_with(&arrived) && !arrived.is_empty() && arrived.len() < text.len());
    }
}

#[test]
fn an_invalid_script_reports_the_reason() {
    let error = open("turns:\n  - txt: x\n").unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unavailable);
    assert_eq!(
        error.message,
        "script.yaml:2:5: there is no key `txt` in `turns[0]` (did you mean `text`?)\n\
         script.yaml:2:5: `turns[0]`: a turn needs `text`, `tool_calls` or `fault`"
    );
    let folder = tempfile::tempdir().unwrap();
    let choice = "scripted/none.yaml".parse().unwrap();
    let error = ScriptedModel::open(&choice, &settings(folder.path())).unwrap_err();
    assert!(
        error
            .message
            .starts_with("the script none.yaml cannot be read: "),
        "{error}"
    );
}

#[test]
fn a_script_has_facts() {
    let model =
        open("price: {input: 3, output: 15}\ncontext_tokens: 500\nturns: [{text: x}]\n").unwrap();
    assert_eq!(model.facts().price.unwrap().output, 15.0);
    assert_eq!(model.facts().context_tokens, 500);
    assert!(model.count_tokens(&bare_request()) > 0);
    let free = open("turns: [{text: x}]\n").unwrap();
    assert_eq!(free.facts().price.unwrap().input, 0.0);
}
