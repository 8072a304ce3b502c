//! A program's terminal output, as styled characters.

use anyhow::{Result, bail};

/// One of the sixteen standard terminal colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnsiColour(pub u8);

/// The style of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextStyle {
    pub colour: Option<AnsiColour>,
    pub bold: bool,
    pub dim: bool,
    pub italic: bool,
    pub underlined: bool,
}

/// A character and its style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScreenCell {
    pub character: char,
    pub style: TextStyle,
}

/// Lines of cells.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Screen {
    pub lines: Vec<Vec<ScreenCell>>,
}

impl Screen {
    /// Parses text with colour sequences. Fails on any other sequence, so that no picture omits
    /// what a terminal shows.
    pub fn parse(text: &str) -> Result<Self> {
        let mut style = TextStyle::default();
        let mut lines = Vec::new();
        for line in text.lines() {
            let mut cells = Vec::new();
            let mut rest = line;
            while let Some((before, after)) = rest.split_once('\x1b') {
                cells.extend(styled_cells(before, style));
                let sequence = after
                    .strip_prefix('[')
                    .and_then(|after| after.split_once('m'));
                let Some((codes, after)) = sequence else {
                    bail!("not a colour: {after:?}");
                };
                style = style.with_codes(codes)?;
                rest = after;
            }
            cells.extend(styled_cells(rest, style));
            lines.push(cells);
        }
        Ok(Self { lines })
    }

    /// A line that was typed rather than printed.
    pub fn typed_line(text: &str) -> Vec<ScreenCell> {
        styled_cells(text, TextStyle::default()).collect()
    }

    /// The length of the longest line in characters.
    pub fn width(&self) -> usize {
        self.lines.iter().map(Vec::len).max().unwrap_or(0)
    }
}

fn styled_cells(text: &str, style: TextStyle) -> impl Iterator<Item = ScreenCell> {
    text.chars()
        .map(move |character| ScreenCell { character, style })
}

impl TextStyle {
    fn with_codes(self, codes: &str) -> Result<Self> {
        let mut look = self;
        let mut codes = codes.split(';');
        while let Some(code) = codes.next() {
            match code {
                "" | "0" => look = Self::default(),
                "1" => look.bold = true,
                "2" => look.dim = true,
                "3" => look.italic = true,
                "4" => look.underlined = true,
                "22" => (look.bold, look.dim) = (false, false),
                "23" => look.italic = false,
                "24" => look.underlined = false,
                "39" => look.colour = None,
                "38" => look.colour = Some(parse_indexed_colour(codes.next(), codes.next())?),
                other => look.colour = Some(parse_basic_colour(other)?),
            }
        }
        Ok(look)
    }
}

fn parse_basic_colour(code: &str) -> Result<AnsiColour> {
    match code.parse::<u8>() {
        Ok(code @ 30..=37) => Ok(AnsiColour(code - 30)),
        Ok(code @ 90..=97) => Ok(AnsiColour(code - 82)),
        _ => bail!("a colour that no picture shows: {code}"),
    }
}

/// `5;N`, of which the first sixteen are the standard colours.
fn parse_indexed_colour(kind: Option<&str>, number: Option<&str>) -> Result<AnsiColour> {
    match (kind, number.map(str::parse::<u8>)) {
        (Some("5"), Some(Ok(number @ 0..=15))) => Ok(AnsiColour(number)),
        _ => bail!("a colour that no picture shows: 38;{kind:?};{number:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_begin_change_and_end() {
        let text = "a\x1b[1m\x1b[36mb\x1b[0mc\n\x1b[38;5;6md\x1b[39m\x1b[2me\x1b[22;91mf";
        let screen = Screen::parse(text).unwrap();
        let looks: Vec<(char, Option<u8>, bool, bool)> = screen
            .lines
            .iter()
            .flatten()
            .map(|cell| {
                let look = cell.style;
                let colour = look.colour.map(|colour| colour.0);
                (cell.character, colour, look.bold, look.dim)
            })
            .collect();
        assert_eq!(
            looks,
            [
                ('a', None, false, false),
                ('b', Some(6), true, false),
                ('c', None, false, false),
                ('d', Some(6), false, false),
                ('e', None, false, true),
                ('f', Some(9), false, false),
            ]
        );
        assert_eq!(screen.width(), 3);
    }

    #[test]
    fn unknown_sequences_are_refused() {
        for text in ["\x1b[2K", "\x1b[38;5;200mx", "\x1b]8;;link", "\x1b[41mx"] {
            assert!(Screen::parse(text).is_err(), "{text:?}");
        }
    }
}
