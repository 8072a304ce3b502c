//! Keeps the start and the end of output of any length, in bounded memory.

use std::collections::VecDeque;
use std::io::{self, Read};

use cleveragents_ports::processes::TruncatedOutput;

const CHUNK: usize = 64 << 10;

/// Reads to the end and keeps at most `limit` bytes, leaving out the middle.
pub(super) fn read_limited(mut stream: impl Read, limit: usize) -> TruncatedOutput {
    let (first, last) = (limit.div_ceil(2), limit / 2);
    let mut start = Vec::new();
    let mut end: VecDeque<u8> = VecDeque::new();
    let mut left_out = 0_u64;
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // After a read error, keep what was read so far.
            Err(_) => break,
        };
        let mut fresh = &chunk[..read];
        let room = (first - start.len()).min(fresh.len());
        start.extend_from_slice(&fresh[..room]);
        fresh = &fresh[room..];
        end.extend(fresh);
        let surplus = end.len().saturating_sub(last);
        drop(end.drain(..surplus));
        left_out += surplus as u64;
    }
    TruncatedOutput {
        start,
        omitted_bytes: left_out,
        end: end.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_and_end_are_kept_at_any_length() {
        for (text, limit, start, left_out, end) in [
            ("", 4, "", 0, ""),
            ("abc", 4, "ab", 0, "c"),
            ("abcd", 4, "ab", 0, "cd"),
            ("abcdefg", 4, "ab", 3, "fg"),
            ("abcdefg", 5, "abc", 2, "fg"),
            ("abc", 0, "", 3, ""),
        ] {
            let kept = read_limited(text.as_bytes(), limit);
            let expected = TruncatedOutput {
                start: start.into(),
                omitted_bytes: left_out,
                end: end.into(),
            };
            assert_eq!(kept, expected, "{text} {limit}");
        }
        let long: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
        let kept = read_limited(&long[..], 1000);
        assert_eq!(
            (&kept.start[..], &kept.end[..]),
            (&long[..500], &long[long.len() - 500..])
        );
        assert_eq!(kept.omitted_bytes, long.len() as u64 - 1000);
    }
}
