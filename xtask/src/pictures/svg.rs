//! Draws a screen in a window, as an SVG that needs no font, script or network.
//!
//! Words are placed one by one, so that columns align in every monospaced font; frames are drawn as
//! lines, so that they close in every font.

use std::fmt::Write as _;

use super::screen::{AnsiColour, Screen, ScreenCell, TextStyle};

/// The width of a character, in tenths of a pixel.
const ADVANCE: usize = 84;
const LINE: usize = 190;

const MARGIN: usize = 180;
const TITLE_BAR: usize = 360;

const BACKGROUND: &str = "#1b1f27";
const BAR: &str = "#262b36";
const TEXT: &str = "#d5dae3";
const QUIET: &str = "#8a93a5";
const FRAME: &str = "#5b6475";

/// The sixteen colours, each readable on the background.
const PALETTE: [&str; 16] = [
    "#4b5263", "#f0808a", "#9ccf7f", "#e8c47c", "#7db4f5", "#cf95e8", "#62c7d4", "#d5dae3",
    "#6b7385", "#ff9aa3", "#b5e39b", "#f5d795", "#9cc8ff", "#e0b0f5", "#86dde8", "#ffffff",
];

/// A command and its output.
#[derive(Debug)]
pub struct Picture {
    pub command: String,
    pub screen: Screen,
}

/// The directions in which the lines of a box-drawing character leave its centre.
#[derive(Debug, Clone, Copy)]
struct BoxStrokes {
    up: bool,
    down: bool,
    left: bool,
    right: bool,
    round: bool,
}

impl Picture {
    pub fn draw(&self) -> String {
        let prompt = Screen::typed_line(&format!("$ {}", self.command));
        let columns = self.screen.width().max(prompt.len());
        let width = tenths(columns * ADVANCE + 2 * MARGIN);
        let rows = self.screen.lines.len() + 1;
        let height = tenths(TITLE_BAR + rows * LINE + 2 * MARGIN);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\">\n<title>{title}</title>\n",
            title = escaped(&self.command),
        );
        svg.push_str(&window(&width, &height));
        let _ = writeln!(
            svg,
            "<g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', \
             'Liberation Mono', monospace\" font-size=\"14\" fill=\"{TEXT}\">"
        );
        let mut frames = String::new();
        let lines = std::iter::once(&prompt).chain(&self.screen.lines);
        for (row, line) in lines.enumerate() {
            draw_words(&mut svg, line, row);
            draw_frames(&mut frames, line, row);
        }
        svg.push_str("</g>\n");
        if !frames.is_empty() {
            let _ = writeln!(
                svg,
                "<path d=\"{frames}\" fill=\"none\" stroke=\"{FRAME}\" stroke-width=\"1.2\"/>"
            );
        }
        svg.push_str("</svg>\n");
        svg
    }
}

fn window(width: &str, height: &str) -> String {
    let mut svg = format!(
        "<rect width=\"{width}\" height=\"{height}\" rx=\"10\" fill=\"{BACKGROUND}\"/>\n\
         <path d=\"M0 28V10a10 10 0 0 1 10-10H{right}a10 10 0 0 1 10 10V28z\" fill=\"{BAR}\"/>\n",
        right = width.parse::<f64>().unwrap_or_default() - 10.0,
    );
    for (at, colour) in [(18, "#f0808a"), (36, "#e8c47c"), (54, "#9ccf7f")] {
        let _ = writeln!(
            svg,
            "<circle cx=\"{at}\" cy=\"14\" r=\"5\" fill=\"{colour}\"/>"
        );
    }
    svg
}

/// The upper left corner of a cell.
fn corner(column: usize, row: usize) -> (usize, usize) {
    (
        MARGIN + column * ADVANCE,
        TITLE_BAR + MARGIN / 2 + row * LINE,
    )
}

fn draw_words(svg: &mut String, line: &[ScreenCell], row: usize) {
    let mut column = 0;
    for word in
        line.chunk_by(|one, other| is_text(*one) == is_text(*other) && one.style == other.style)
    {
        if word.first().is_some_and(|cell| is_text(*cell)) {
            draw_word(svg, word, column, row);
        }
        column += word.len();
    }
}

fn is_text(cell: ScreenCell) -> bool {
    cell.character != ' ' && strokes(cell.character).is_none()
}

fn draw_word(svg: &mut String, word: &[ScreenCell], column: usize, row: usize) {
    let (x, y) = corner(column, row);
    let text: String = word.iter().map(|cell| cell.character).collect();
    let look = word.first().map(|cell| cell.style).unwrap_or_default();
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" textLength=\"{}\"{}>{}</text>",
        tenths(x),
        tenths(y + 140),
        tenths(word.len() * ADVANCE),
        attributes(look),
        escaped(&text)
    );
}

fn attributes(look: TextStyle) -> String {
    let mut text = String::new();
    let colour = match (look.colour, look.dim) {
        (Some(AnsiColour(number)), _) => PALETTE.get(usize::from(number)).copied(),
        (None, true) => Some(QUIET),
        (None, false) => None,
    };
    if let Some(colour) = colour {
        let _ = write!(text, " fill=\"{colour}\"");
    }
    for (on, attribute) in [
        (look.bold, " font-weight=\"bold\""),
        (look.italic, " font-style=\"italic\""),
        (look.underlined, " text-decoration=\"underline\""),
    ] {
        text.push_str(if on { attribute } else { "" });
    }
    text
}

fn draw_frames(path: &mut String, line: &[ScreenCell], row: usize) {
    for (column, cell) in line.iter().enumerate() {
        if let Some(strokes) = strokes(cell.character) {
            let (x, y) = corner(column, row);
            draw_strokes(path, strokes, x, y);
        }
    }
}

fn draw_strokes(path: &mut String, strokes: BoxStrokes, x: usize, y: usize) {
    let (middle, level) = (tenths(x + ADVANCE / 2), tenths(y + LINE / 2));
    let vertical = if strokes.down {
        tenths(y + LINE)
    } else {
        tenths(y)
    };
    let sideways = if strokes.right {
        tenths(x + ADVANCE)
    } else {
        tenths(x)
    };
    if strokes.round {
        let _ = write!(
            path,
            "M{middle} {vertical}Q{middle} {level} {sideways} {level}"
        );
        return;
    }
    if strokes.up || strokes.down {
        let from = tenths(if strokes.up { y } else { y + LINE / 2 });
        let to = tenths(if strokes.down { y + LINE } else { y + LINE / 2 });
        let _ = write!(path, "M{middle} {from}V{to}");
    }
    if strokes.left || strokes.right {
        let from = tenths(if strokes.left { x } else { x + ADVANCE / 2 });
        let to = tenths(if strokes.right {
            x + ADVANCE
        } else {
            x + ADVANCE / 2
        });
        let _ = write!(path, "M{from} {level}H{to}");
    }
}

/// The strokes of a box-drawing character: up, down, left, right.
fn strokes(character: char) -> Option<BoxStrokes> {
    let (sides, round) = match character {
        '─' => ("lr", false),
        '│' => ("ud", false),
        '├' => ("udr", false),
        '┤' => ("udl", false),
        '┬' => ("dlr", false),
        '┴' => ("ulr", false),
        '┼' => ("udlr", false),
        '└' => ("ur", false),
        '┘' => ("ul", false),
        '┌' => ("dr", false),
        '┐' => ("dl", false),
        '╭' => ("dr", true),
        '╮' => ("dl", true),
        '╰' => ("ur", true),
        '╯' => ("ul", true),
        _ => return None,
    };
    Some(BoxStrokes {
        up: sides.contains('u'),
        down: sides.contains('d'),
        left: sides.contains('l'),
        right: sides.contains('r'),
        round,
    })
}

/// Formats tenths of a pixel as pixels.
fn tenths(number: usize) -> String {
    match number % 10 {
        0 => (number / 10).to_string(),
        part => format!("{}.{part}", number / 10),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw_text(command: &str, text: &str) -> String {
        let screen = Screen::parse(text).unwrap();
        let command = command.to_owned();
        Picture { command, screen }.draw()
    }

    #[test]
    fn words_keep_their_columns_and_styles() {
        let svg = draw_text(
            "agents <x> & y",
            "  \x1b[1m\x1b[36mPlan\x1b[0m of\x1b[2m mine\x1b[0m",
        );
        assert!(
            svg.contains("<title>agents &lt;x&gt; &amp; y</title>"),
            "{svg}"
        );
        let plan =
            "x=\"34.8\" y=\"78\" textLength=\"33.6\" fill=\"#62c7d4\" font-weight=\"bold\">Plan<";
        assert!(svg.contains(plan), "{svg}");
        assert!(svg.contains(&format!("fill=\"{QUIET}\">mine<")), "{svg}");
        assert!(svg.contains("textLength=\"16.8\">of<"), "{svg}");
        assert!(!svg.contains("<path d=\"M18"), "{svg}");
    }

    #[test]
    fn frames_are_lines_that_meet() {
        let svg = draw_text("x", "╭─╮\n│a│\n╰─╯\n");
        assert!(!svg.contains(['╭', '─', '│', '╯']), "{svg}");
        // The corner continues to the right where the line begins, and below where the bar begins.
        assert!(
            svg.contains("M22.2 83Q22.2 73.5 26.4 73.5M26.4 73.5H34.8"),
            "{svg}"
        );
        assert!(svg.contains("M22.2 83V102"), "{svg}");
        assert!(svg.contains(">a</text>"), "{svg}");
    }
}
