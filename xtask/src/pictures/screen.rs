//! What a program printed to a terminal, as characters with a look.

use anyhow::{Result, bail};

/// One of the sixteen colours every terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour(pub u8);

/// How a character looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Look {
    pub colour: Option<Colour>,
    pub bold: bool,
    pub dim: bool,
    pub italic: bool,
    pub underlined: bool,
}

/// A character and its look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    pub character: char,
    pub look: Look,
}

/// Lines of cells.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Screen {
    pub lines: Vec<Vec<Cell>>,
}

impl Screen {
    /// Reads text with colour sequences. Any other sequence is an error, so that no picture leaves
    /// out what a terminal shows.
    pub fn read(text: &str) -> Result<Self> {
        let mut look = Look::default();
        let mut lines = Vec::new();
        for line in text.lines() {
            let mut cells = Vec::new();
            let mut rest = line;
            while let Some((before, after)) = rest.split_once('\x1b') {
                cells.extend(cells_of(before, look));
                let sequence = after
                    .strip_prefix('[')
                    .and_then(|after| after.split_once('m'));
                let Some((codes, after)) = sequence else {
                    bail!("not a colour: {after:?}");
                };
                look = look.after(codes)?;
                rest = after;
            }
            cells.extend(cells_of(rest, look));
            lines.push(cells);
        }
        Ok(Self { lines })
    }

    /// A line that was typed rather than printed.
    pub fn typed(text: &str) -> Vec<Cell> {
        cells_of(text, Look::default()).collect()
    }

    /// How many characters the longest line has.
    pub fn width(&self) -> usize {
        self.lines.iter().map(Vec::len).max().unwrap_or(0)
    }
}

fn cells_of(text: &str, look: Look) -> impl Iterator<Item = Cell> {
    text.chars().map(move |character| Cell { character, look })
}

impl Look {
    fn after(self, codes: &str) -> Result<Self> {
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
                "38" => look.colour = Some(one_of_many(codes.next(), codes.next())?),
                other => look.colour = Some(one_of_sixteen(other)?),
            }
        }
        Ok(look)
    }
}

fn one_of_sixteen(code: &str) -> Result<Colour> {
    match code.parse::<u8>() {
        Ok(code @ 30..=37) => Ok(Colour(code - 30)),
        Ok(code @ 90..=97) => Ok(Colour(code - 82)),
        _ => bail!("a colour that no picture shows: {code}"),
    }
}

/// `5;N`, of which the first sixteen are the ones every terminal has.
fn one_of_many(kind: Option<&str>, number: Option<&str>) -> Result<Colour> {
    match (kind, number.map(str::parse::<u8>)) {
        (Some("5"), Some(Ok(number @ 0..=15))) => Ok(Colour(number)),
        _ => bail!("a colour that no picture shows: 38;{kind:?};{number:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_begin_change_and_end() {
        let text = "a\x1b[1m\x1b[36mb\x1b[0mc\n\x1b[38;5;6md\x1b[39m\x1b[2me\x1b[22;91mf";
        let screen = Screen::read(text).unwrap();
        let looks: Vec<(char, Option<u8>, bool, bool)> = screen
            .lines
            .iter()
            .flatten()
            .map(|cell| {
                let look = cell.look;
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
    fn what_cannot_be_shown_is_refused() {
        for text in ["\x1b[2K", "\x1b[38;5;200mx", "\x1b]8;;link", "\x1b[41mx"] {
            assert!(Screen::read(text).is_err(), "{text:?}");
        }
    }
}
