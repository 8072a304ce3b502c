//! Parses server-sent events from arbitrarily split bytes.

/// The maximum length of a line, in bytes.
const LINE_MAXIMUM: usize = 4 << 20;
/// The maximum data of one event, in bytes.
const DATA_MAXIMUM: usize = 8 << 20;

/// An event: its name, if it has one, and its data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    pub(crate) name: String,
    pub(crate) data: String,
}

/// Error of a stream that cannot be parsed further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SseError {
    #[error("a line of its stream has more than {LINE_MAXIMUM} bytes")]
    LineTooLong,
    #[error("an event of its stream has more than {DATA_MAXIMUM} bytes")]
    EventTooLong,
    #[error("its stream is not UTF-8 text")]
    NotText,
}

/// The parser state between two chunks.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    line: Vec<u8>,
    event: SseEvent,
    /// Whether the event has any data, even an empty data line.
    has_data: bool,
    /// A line feed directly after a carriage return belongs to it.
    after_return: bool,
    /// Only the very first line may begin with a byte order mark.
    past_first: bool,
}

impl SseParser {
    /// Consumes the next chunk and returns the events that it completes.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Result<Vec<SseEvent>, SseError> {
        let mut events = Vec::new();
        if self.after_return && !bytes.is_empty() {
            self.after_return = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.extend(&bytes[..end])?;
            let is_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if is_return {
                match bytes.first() {
                    Some(b'\n') => bytes = &bytes[1..],
                    Some(_) => {}
                    None => self.after_return = true,
                }
            }
            events.extend(self.end_line()?);
        }
        self.extend(bytes)?;
        Ok(events)
    }

    /// Returns the event that the end of the stream completes: its lines are complete and only the
    /// empty line is missing. A truncated line is ignored.
    pub(crate) fn end(&mut self) -> Option<SseEvent> {
        self.line.clear();
        self.dispatch()
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        if self.line.len() + bytes.len() > LINE_MAXIMUM {
            return Err(SseError::LineTooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<SseEvent>, SseError> {
        let bytes = std::mem::take(&mut self.line);
        let text = std::str::from_utf8(&bytes).map_err(|_| SseError::NotText)?;
        let line = if self.past_first {
            text
        } else {
            text.strip_prefix('\u{feff}').unwrap_or(text)
        };
        self.past_first = true;
        if line.is_empty() {
            return Ok(self.dispatch());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => self.add_data(value)?,
            "event" => value.clone_into(&mut self.event.name),
            // Comments have an empty name; `id`, `retry` and unknown fields are ignored.
            _ => {}
        }
        Ok(None)
    }

    fn add_data(&mut self, value: &str) -> Result<(), SseError> {
        if self.event.data.len() + value.len() >= DATA_MAXIMUM {
            return Err(SseError::EventTooLong);
        }
        if self.has_data {
            self.event.data.push('\n');
        }
        self.event.data.push_str(value);
        self.has_data = true;
        Ok(())
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let event = std::mem::take(&mut self.event);
        std::mem::take(&mut self.has_data).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, data: &str) -> SseEvent {
        SseEvent {
            name: name.to_owned(),
            data: data.to_owned(),
        }
    }

    /// The events of a stream fed in these chunks.
    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<SseEvent> {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        for piece in pieces {
            events.extend(parser.feed(piece).unwrap());
        }
        events.extend(parser.end());
        events
    }

    const STREAM: &str = "\u{feff}: hello\n\ndata: one\n\nevent: x\ndata:two\ndata\ndata:  three é日\n\
        id: 7\nretry: 5\nunknown: z\nno colon\n\nevent: nothing\n\ndata: last\n";

    #[test]
    fn events_do_not_depend_on_chunks_or_line_endings() {
        let expected = [
            event("", "one"),
            event("x", "two\n\n three é日"),
            event("", "last"),
        ];
        for line_end in ["\n", "\r\n", "\r"] {
            let stream = STREAM.replace('\n', line_end);
            let bytes = stream.as_bytes();
            for cut in 0..=bytes.len() {
                let (front, back) = bytes.split_at(cut);
                assert_eq!(read([front, back]), expected, "{line_end:?} at {cut}");
            }
            assert_eq!(read(bytes.chunks(1)), expected, "{line_end:?}");
        }
    }

    #[test]
    fn an_incomplete_last_line_is_ignored() {
        assert_eq!(read([&b"data: one\n\ndata: tw"[..]]), [event("", "one")]);
        assert_eq!(read([&b"data: one\ndata: tw"[..]]), [event("", "one")]);
        assert_eq!(read([&b"data: one"[..]]), []);
    }

    #[test]
    fn too_long_lines_and_invalid_utf8_are_refused() {
        let mut parser = SseParser::default();
        let piece = vec![b'x'; LINE_MAXIMUM];
        parser.feed(&piece).unwrap();
        assert_eq!(parser.feed(b"x"), Err(SseError::LineTooLong));

        let mut parser = SseParser::default();
        let line = [b"data:", &vec![b'x'; LINE_MAXIMUM / 2][..], b"\n"].concat();
        let outcomes: Vec<_> = (0..5).map(|_| parser.feed(&line)).collect();
        assert!(outcomes.contains(&Err(SseError::EventTooLong)));

        let mut parser = SseParser::default();
        assert_eq!(parser.feed(b"data: \xff\n"), Err(SseError::NotText));
    }
}
