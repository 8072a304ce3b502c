//! o200k, the vocabulary of OpenAI's newer models.
//!
//! The data is the published list of tokens, which are byte strings in the order of their rank,
//! compressed with zlib: first the length of every token, one byte each, then the bytes of all.
//! See `o200k.md` for its origin.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Read as _;
use std::sync::LazyLock;

use flate2::read::ZlibDecoder;

use super::pieces::CharClasses;

const COMPRESSED: &[u8] = include_bytes!("o200k.zlib");

/// The number of tokens, special ones excluded.
const TOKENS: usize = 199_998;
const LONGEST_TOKEN: usize = 128;

/// Entries of the hash table: a power of two that leaves more than half of them empty.
const SLOTS: usize = 1 << 19;
/// The lower bits of an entry are a rank plus one, the upper bits are a part of the hash, so that
/// most comparisons need not read the bytes of a token.
const RANK_BITS: u32 = 18;
const RANK_MASK: u32 = (1 << RANK_BITS) - 1;

/// Rank of a pair that is not a token.
const NO_RANK: u32 = u32::MAX;

/// A constant of the program that is unpacked when it is first needed: only commands that use a
/// model over HTTP need it.
static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(Tokenizer::load);

/// Returns the exact number of tokens of a text.
pub(super) fn count(text: &str) -> usize {
    TOKENIZER.count(text)
}

#[derive(Debug)]
struct Tokenizer {
    classes: CharClasses,
    ranks: RankTable,
}

impl Tokenizer {
    fn load() -> Self {
        Self {
            classes: CharClasses::load(),
            ranks: RankTable::load(),
        }
    }

    fn count(&self, text: &str) -> usize {
        let mut merger = Merger::default();
        let pieces = self.classes.pieces(text).map(str::as_bytes);
        pieces
            .map(|piece| {
                if self.ranks.contains(piece) {
                    1
                } else {
                    merger.count(&self.ranks, piece)
                }
            })
            .sum()
    }
}

/// The rank of every token, in about 5 MB: the bytes of all tokens, where each ends, and a hash
/// table of ranks.
#[derive(Debug)]
struct RankTable {
    bytes: Vec<u8>,
    /// The end of each token in `bytes`, in the order of their ranks.
    ends: Vec<u32>,
    slots: Vec<u32>,
}

impl RankTable {
    /// Unpacks the data. If that fails, the table is empty and every byte counts as a token, which
    /// is still an upper bound.
    fn load() -> Self {
        let mut table = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(TOKENS),
            slots: vec![0; SLOTS],
        };
        let mut lengths = vec![0; TOKENS];
        let mut decoder = ZlibDecoder::new(COMPRESSED);
        if decoder.read_exact(&mut lengths).is_err() {
            return table;
        }
        let total = lengths.iter().copied().map(usize::from).sum();
        let mut bytes = vec![0; total];
        if decoder.read_exact(&mut bytes).is_err() {
            return table;
        }
        let mut end = 0;
        table.ends.extend(lengths.iter().map(|length| {
            end += u32::from(*length);
            end
        }));
        table.bytes = bytes;
        for rank in 0..TOKENS {
            table.insert(rank);
        }
        table
    }

    fn insert(&mut self, rank: usize) {
        let (mut slot, tag) = place(self.token(rank));
        while self.slots[slot] != 0 {
            slot = (slot + 1) % SLOTS;
        }
        let rank = u32::try_from(rank).unwrap_or(RANK_MASK - 1);
        self.slots[slot] = tag | (rank + 1);
    }

    fn token(&self, rank: usize) -> &[u8] {
        let start = rank.checked_sub(1).map_or(0, |it| self.ends[it]);
        &self.bytes[start as usize..self.ends[rank] as usize]
    }

    fn rank(&self, token: &[u8]) -> Option<u32> {
        if token.len() > LONGEST_TOKEN {
            return None;
        }
        let (mut slot, tag) = place(token);
        loop {
            let entry = self.slots[slot];
            if entry == 0 {
                return None;
            }
            let rank = (entry & RANK_MASK) - 1;
            if entry & !RANK_MASK == tag && self.token(rank as usize) == token {
                return Some(rank);
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    fn contains(&self, token: &[u8]) -> bool {
        self.rank(token).is_some()
    }
}

/// Returns the first slot of a token, and the tag of its entry.
fn place(token: &[u8]) -> (usize, u32) {
    // 2^64 divided by the golden ratio, which spreads the bits of a word.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = token.len() as u64;
    let mut mix = |word: u64| hash = (hash.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    let mut words = token.chunks_exact(8);
    for word in &mut words {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(word);
        mix(u64::from_le_bytes(bytes));
    }
    let rest = words.remainder().iter();
    mix(rest.fold(0, |word, byte| word << 8 | u64::from(*byte)));
    let hash = hash ^ hash >> 29;
    let tag = (hash >> 32) as u32 & !RANK_MASK;
    (hash as usize % SLOTS, tag)
}

/// Merges the bytes of a piece into tokens: as long as two neighbours form a token, the pair with
/// the lowest rank is merged, the leftmost first. A queue of pairs keeps this fast for a piece of
/// any length.
#[derive(Debug, Default)]
struct Merger {
    /// By the start of a part: where the part ends, where the part before it starts, and the rank
    /// of the part together with its right neighbour.
    ends: Vec<u32>,
    previous: Vec<u32>,
    pairs: Vec<u32>,
    /// Rank and start of pairs. An entry is outdated if `pairs` has another rank for its start.
    queue: BinaryHeap<Reverse<(u32, u32)>>,
}

impl Merger {
    fn count(&mut self, ranks: &RankTable, piece: &[u8]) -> usize {
        let Ok(length) = u32::try_from(piece.len()) else {
            return piece.len();
        };
        self.ends.clear();
        self.ends.extend(1..=length);
        self.previous.clear();
        self.previous
            .extend((0..length).map(|it| it.saturating_sub(1)));
        self.pairs.clear();
        self.pairs.resize(piece.len(), NO_RANK);
        self.queue.clear();
        for start in 0..length {
            self.rank_pair(ranks, piece, start);
        }
        let mut count = piece.len();
        while let Some(Reverse((rank, start))) = self.queue.pop() {
            if self.pairs[start as usize] == rank {
                self.merge(ranks, piece, start);
                count -= 1;
            }
        }
        count
    }

    /// Merges the part at `start` with its right neighbour.
    fn merge(&mut self, ranks: &RankTable, piece: &[u8], start: u32) {
        let middle = self.ends[start as usize] as usize;
        let end = self.ends[middle];
        self.pairs[middle] = NO_RANK;
        self.ends[start as usize] = end;
        if let Some(previous) = self.previous.get_mut(end as usize) {
            *previous = start;
        }
        self.rank_pair(ranks, piece, start);
        if start > 0 {
            self.rank_pair(ranks, piece, self.previous[start as usize]);
        }
    }

    /// Looks up the part at `start` together with its right neighbour.
    fn rank_pair(&mut self, ranks: &RankTable, piece: &[u8], start: u32) {
        let middle = self.ends[start as usize] as usize;
        let pair = self.ends.get(middle).map(|end| *end as usize);
        let pair = pair.map(|end| &piece[start as usize..end]);
        let rank = pair.and_then(|pair| ranks.rank(pair));
        self.pairs[start as usize] = rank.unwrap_or(NO_RANK);
        if let Some(rank) = rank {
            self.queue.push(Reverse((rank, start)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use sha2::{Digest as _, Sha256};

    use super::*;

    /// The hash of the published file, which has a line for each token: its bytes in base64 and its
    /// rank. The library that its publisher wrote checks the same hash.
    const PUBLISHED: &str = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d";

    fn base64(bytes: &[u8]) -> String {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for group in bytes.chunks(3) {
            let byte = |at| u32::from(group.get(at).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for at in 0..4 {
                let digit = DIGITS[(bits >> (18 - 6 * at)) as usize & 63];
                text.push(if at > group.len() { '=' } else { digit.into() });
            }
        }
        text
    }

    #[test]
    fn the_vocabulary_is_the_published_one() {
        let ranks = RankTable::load();
        let mut hasher = Sha256::new();
        for rank in 0..TOKENS {
            hasher.update(format!("{} {rank}\n", base64(ranks.token(rank))));
        }
        let hash = hasher
            .finalize()
            .iter()
            .fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            });
        assert_eq!(hash, PUBLISHED);
    }

    #[test]
    fn every_token_has_its_rank() {
        let ranks = RankTable::load();
        for rank in 0..TOKENS {
            let token = ranks.token(rank);
            assert!(token.len() <= LONGEST_TOKEN, "{rank}");
            assert_eq!(ranks.rank(token).map(|it| it as usize), Some(rank));
        }
    }

    /// The counts are those of the crate `bpe-openai` 0.3.2.
    #[test]
    fn texts_of_every_kind_have_recorded_counts() {
        for (expected, text) in [
            (
                19,
                "It's what we'd have said: they'll go, you've gone, I'm here. DON'T SHOUT'S",
            ),
            (
                34,
                "fn main() {\n    let HTTPServer = parse_url(\"https://example.org/a//b\")?;\n\t\t\
                 x += 0x1F; // ok\n}\n",
            ),
            (
                26,
                r#"{"path":"src/lib.rs","lines":[1,22,333,4444],"ok":true,"none":null}"#,
            ),
            (25, "3.14159 1234567890 ²³ Ⅷ ٣٤٥ 1,000,000"),
            (16, "a  b   c\t\td \n\n  e\r\n\r\n   \u{a0}\u{2003} f   "),
            (
                18,
                "日本語のテキスト 中文字符 한국어 Русский текст עברית العربية हिन्दी ไทย",
            ),
            (30, "🙂👍🏽👩‍👩‍👧 ❤️ e\u{301}te\u{301} Å ǅungla ʰªſ'ſ"),
            (
                15,
                "camelCaseIdentifierXMLHttpRequest SCREAMING_SNAKE_CASE日本Aa",
            ),
            (
                22,
                "!!!???///---***===>>><<<&&&|||\\\\\\ /// \n/\n#![allow(x)]",
            ),
            (
                13,
                "\u{0}\u{1}\u{7f}\u{85}\u{2028}\u{feff}\u{e000}\u{10ffff}",
            ),
        ] {
            assert_eq!(count(text), expected, "{text:?}");
        }
    }

    #[test]
    fn long_repetitions_have_recorded_counts() {
        for (expected, text, times) in [
            (660, "SGVsbG8sIHdvcmxkISBUaGlzIGlzIGJhc2U2NC4/+8Zz0A==", 20),
            (40, " ", 5000),
            (313, "\n", 5000),
            (625, "a", 5000),
            (5001, "word ", 5000),
            (1200, "antidisestablishmentarianism", 200),
            (5000, "漢字", 2500),
            // Takes many minutes if the time grows with the square of the length.
            (31_250, "a", 250_000),
        ] {
            assert_eq!(count(&text.repeat(times)), expected, "{times} × {text:?}");
        }
    }

    #[test]
    fn without_data_every_byte_counts() {
        let mut ranks = RankTable::load();
        ranks.slots.fill(0);
        assert_eq!(Merger::default().count(&ranks, "é!".as_bytes()), 3);
    }
}
