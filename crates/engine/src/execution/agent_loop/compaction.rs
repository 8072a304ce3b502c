//! Compacts a conversation: old turns are replaced by a summary; the pinned messages stay.

use cleveragents_domain::model::ModelMessage;

/// Maximum length of a summary line, in characters.
const LINE_MAXIMUM: usize = 160;

/// Maximum number of lines of a summary; the newest are kept.
const LINES_MAXIMUM: usize = 200;

/// A conversation with the token count of each message.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WeightedMessages {
    pub(super) messages: Vec<ModelMessage>,
    pub(super) weights: Vec<u64>,
}

impl WeightedMessages {
    pub(super) fn total(&self) -> u64 {
        self.weights.iter().sum()
    }
}

/// Returns the first `pinned` messages, a summary of the dropped turns, and as many of the newest
/// turns as fit into `room`. The newest turn is always kept. Returns `None` if nothing can be
/// dropped.
pub(super) fn compact(
    conversation: &WeightedMessages,
    pinned: usize,
    room: u64,
    weigh: &dyn Fn(&ModelMessage) -> u64,
) -> Option<WeightedMessages> {
    let WeightedMessages { messages, weights } = conversation;
    let fixed: u64 = weights.iter().take(pinned).sum();
    // A turn starts with the model's message and includes the results of its calls.
    let begins = |index: &usize| matches!(messages[*index], ModelMessage::Assistant { .. });
    let starts: Vec<usize> = (pinned..messages.len()).filter(begins).collect();
    let newest = *starts.last()?;
    let fits = |start: usize| {
        let kept: u64 = weights[start..].iter().sum();
        // A quarter of the room is reserved for the summary.
        fixed + kept <= room - room / 4
    };
    let keep_from = starts.into_iter().find(|start| fits(*start));
    let keep_from = keep_from.unwrap_or(newest);
    if keep_from <= pinned {
        return None;
    }
    let gone = &messages[pinned..keep_from];
    let user = |text: &str| ModelMessage::User {
        text: text.to_owned(),
    };
    let fits = |text: &str| weigh(&user(text)) <= room / 4;
    let summary = user(&summarize(gone, &fits));
    let mut kept = WeightedMessages {
        messages: messages[..pinned].to_vec(),
        weights: weights[..pinned].to_vec(),
    };
    kept.weights.push(weigh(&summary));
    kept.messages.push(summary);
    kept.messages.extend_from_slice(&messages[keep_from..]);
    kept.weights.extend_from_slice(&weights[keep_from..]);
    (kept.total() < conversation.total()).then_some(kept)
}

/// Start of every summary. A later compaction recognises an earlier summary by it.
const SUMMARY_PREFIX: &str = "Earlier turns were left out to make room.";

/// Separates the user's messages from the list of what was done.
const DONE_HEADING: &str = "\nThis was done:\n";

/// Start of a user's message, which is never shortened.
pub(super) const USER_PREFIX: &str = "Message from the user: ";

/// Start of a user's message in conversations that were stored by earlier versions.
const FORMER_USER_PREFIX: &str = "A human says: ";

fn is_user_message(text: &str) -> bool {
    [USER_PREFIX, FORMER_USER_PREFIX]
        .iter()
        .any(|prefix| text.starts_with(prefix))
}

/// Summarises the dropped messages, one line each: the model's texts, its calls and their results.
/// User messages are kept whole. An earlier summary is merged, not nested.
fn summarize(gone: &[ModelMessage], fits: &dyn Fn(&str) -> bool) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut user_messages: Vec<String> = Vec::new();
    for message in gone {
        match message {
            ModelMessage::System { .. } => {}
            ModelMessage::User { text } if text.starts_with(SUMMARY_PREFIX) => {
                // Split at the last heading: no line of the list below it can look like the
                // heading.
                let (user_text, done) = text.rsplit_once(DONE_HEADING).unwrap_or((text, ""));
                let user_text = user_text.split_once('\n').map(|(_, said)| said.to_owned());
                user_messages.extend(user_text);
                let done = done.lines().filter_map(|line| line.strip_prefix("- "));
                lines.extend(done.map(str::to_owned));
            }
            ModelMessage::User { text } if is_user_message(text) => {
                user_messages.push(text.clone())
            }
            ModelMessage::User { text } => {
                lines.push(shorten(&format!("Note to you: {text}")));
            }
            ModelMessage::Assistant { text, tool_calls } => {
                if !text.trim().is_empty() {
                    lines.push(shorten(&format!("You said: {text}")));
                }
                for call in tool_calls {
                    lines.push(shorten(&format!(
                        "You called {} with {}",
                        call.tool, call.arguments
                    )));
                }
            }
            ModelMessage::Tool { text, .. } => lines.push(shorten(&format!("It gave: {text}"))),
        }
    }
    let mut from = lines.len().saturating_sub(LINES_MAXIMUM);
    loop {
        let text = render_summary(&user_messages, &lines[from..]);
        if from >= lines.len() || fits(&text) {
            return text;
        }
        // Drop the older half of the remaining lines.
        from += (lines.len() - from).div_ceil(2);
    }
}

fn render_summary(user_messages: &[String], lines: &[String]) -> String {
    let mut text = format!(
        "{SUMMARY_PREFIX} This is what happened in them, the oldest perhaps missing; read files again where \
         their content matters."
    );
    for message in user_messages {
        text.push('\n');
        text.push_str(message);
    }
    text.push_str(DONE_HEADING);
    for line in lines {
        text.push_str("- ");
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// Returns the text as one line of limited length.
fn shorten(text: &str) -> String {
    let mut line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(LINE_MAXIMUM)
        .collect();
    if text.chars().count() > LINE_MAXIMUM {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use cleveragents_domain::model::{RequestedToolCall, ToolCallPosition};
    use proptest::prelude::*;

    use super::*;

    fn weigh(message: &ModelMessage) -> u64 {
        serde_json::to_string(message).unwrap().len() as u64
    }

    fn user(text: &str) -> ModelMessage {
        ModelMessage::User {
            text: text.to_owned(),
        }
    }

    fn turn(turn: u32, size: usize) -> [ModelMessage; 2] {
        let place = ToolCallPosition { turn, slot: 1 };
        let call = RequestedToolCall {
            place,
            tool: "builtin/file-read".to_owned(),
            arguments: format!("{{\"path\":\"{turn}.txt\"}}"),
        };
        [
            ModelMessage::Assistant {
                text: String::new(),
                tool_calls: vec![call],
            },
            ModelMessage::Tool {
                call: place,
                text: "x".repeat(size),
            },
        ]
    }

    fn weighed(messages: Vec<ModelMessage>) -> WeightedMessages {
        let weights = messages.iter().map(weigh).collect();
        WeightedMessages { messages, weights }
    }

    #[test]
    fn user_messages_survive_repeated_compaction() {
        let user_message = format!(
            "{USER_PREFIX}rules:\n- never touch the API\n\n- use tabs{DONE_HEADING}- nothing"
        );
        let mut text = summarize(&[user(&user_message)], &|_| true);
        for number in 1..4 {
            let [called, gave] = turn(number, 10);
            let gone = [user(&text), called, gave];
            // In the second round, no line fits.
            text = summarize(&gone, &|text: &str| {
                number != 2 || !text.contains("You called")
            });
            assert_eq!(text.matches(&user_message).count(), 1, "{text}");
        }
        assert_eq!(text.matches("You called").count(), 1, "{text}");
    }

    #[test]
    fn the_plan_stays_and_the_oldest_turns_go() {
        let mut messages = vec![user("The plan"), user("Invariants and checks")];
        messages.extend((1..=10).flat_map(|number| turn(number, 1000)));
        let before = weighed(messages);
        let after = compact(&before, 2, 8000, &weigh).unwrap();
        assert_eq!(after.messages[..2], before.messages[..2]);
        assert!(after.total() < before.total());
        let ModelMessage::User { text } = &after.messages[2] else {
            panic!("{after:?}")
        };
        assert!(text.contains("You called builtin/file-read with {\"path\":\"1.txt\"}"));
        assert_eq!(after.messages.last(), before.messages.last());
        assert!(matches!(after.messages[3], ModelMessage::Assistant { .. }));
    }

    #[test]
    fn user_messages_survive_compaction() {
        for message in ["Message from the user: use tabs", "A human says: use tabs"] {
            let mut messages = vec![user("The plan")];
            messages.extend(turn(1, 4000));
            messages.push(user(message));
            messages.extend(turn(2, 100));
            let after = compact(&weighed(messages), 1, 2000, &weigh).unwrap();
            let text = serde_json::to_string(&after.messages).unwrap();
            assert!(text.contains(message), "{text}");
            assert!(!text.contains("Note to you"), "{text}");
        }
    }

    #[test]
    fn the_summary_of_old_turns_does_not_grow() {
        let room = 8000;
        let mut conversation = weighed(vec![user("The plan")]);
        let mut sizes = Vec::new();
        for number in 1..300 {
            for message in turn(number, 300) {
                conversation.weights.push(weigh(&message));
                conversation.messages.push(message);
            }
            if conversation.total() > room {
                conversation = compact(&conversation, 1, room / 2, &weigh).unwrap();
                sizes.push(conversation.total());
            }
        }
        assert!(
            sizes.len() > 10 && sizes.iter().all(|size| *size <= room / 2),
            "{sizes:?}"
        );
        let summaries = conversation.messages.iter();
        let summaries = summaries.filter(|it| format!("{it:?}").contains(SUMMARY_PREFIX));
        assert_eq!(summaries.count(), 1);
    }

    #[test]
    fn a_single_turn_cannot_be_compacted() {
        let mut messages = vec![user("The plan")];
        messages.extend(turn(1, 4000));
        assert_eq!(compact(&weighed(messages), 1, 100, &weigh), None);
        assert_eq!(
            compact(&weighed(vec![user("The plan")]), 1, 1, &weigh),
            None
        );
    }

    proptest! {
        #[test]
        fn calls_and_their_results_stay_together(
            sizes in proptest::collection::vec(0_usize..3000, 1..30),
            room in 100_u64..40_000,
        ) {
            let mut messages = vec![user("The plan")];
            for (number, size) in (1..).zip(&sizes) {
                messages.extend(turn(number, *size));
            }
            let before = weighed(messages);
            if let Some(after) = compact(&before, 1, room, &weigh) {
                prop_assert_eq!(&after.messages[0], &before.messages[0]);
                prop_assert_eq!(after.messages.last(), before.messages.last());
                prop_assert!(after.total() < before.total());
                let weights: Vec<u64> = after.messages.iter().map(weigh).collect();
                prop_assert_eq!(&after.weights, &weights);
                let mut asked = Vec::new();
                for message in &after.messages {
                    match message {
                        ModelMessage::Assistant { tool_calls, .. } => {
                            asked = tool_calls.iter().map(|it| it.place).collect();
                        }
                        ModelMessage::Tool { call, .. } => prop_assert!(asked.contains(call)),
                        _ => {}
                    }
                }
            }
        }
    }
}
