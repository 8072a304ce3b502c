//! Percent-encoding of bytes that are almost always text: paths.
//!
//! Encodes invalid UTF-8, control characters and `%` itself, so every byte string round-trips and
//! none can inject terminal escapes.

use std::fmt::{self, Write};

/// Writes `bytes`, encoded only where needed.
pub(crate) fn write(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '%' || character.is_control() {
                let mut buffer = [0; 4];
                encode(character.encode_utf8(&mut buffer).as_bytes(), f)?;
            } else {
                f.write_char(character)?;
            }
        }
        encode(chunk.invalid(), f)?;
    }
    Ok(())
}

fn encode(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "%{byte:02X}"))
}

/// A `%` that is not followed by two hexadecimal digits, at this byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PercentDecodeError {
    pub(crate) at: usize,
}

/// Decodes what [`write()`] wrote.
pub(crate) fn read(text: &str) -> Result<Vec<u8>, PercentDecodeError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = after;
            continue;
        }
        let at = text.len() - rest.len();
        let Some((digits, after)) = after.split_first_chunk::<2>() else {
            return Err(PercentDecodeError { at });
        };
        bytes.push(decode(*digits).ok_or(PercentDecodeError { at })?);
        rest = after;
    }
    Ok(bytes)
}

fn decode(digits: [u8; 2]) -> Option<u8> {
    let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
    u8::try_from(high? * 16 + low?).ok()
}
