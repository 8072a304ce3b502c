//! Trees as lines with guides that lead the eye from a parent to its children. Nothing here is
//! recursive: a tree may be as deep as it is long.

use super::choice::Colour;
use super::layout::painted;
use super::model::Twig;
use super::text::one_line;

/// The strokes of the guides.
pub(super) struct Strokes {
    branch: &'static str,
    last: &'static str,
    trunk: &'static str,
}

pub(super) const LINES: Strokes = Strokes {
    branch: "├─ ",
    last: "└─ ",
    trunk: "│  ",
};

pub(super) const ASCII: Strokes = Strokes {
    branch: "|- ",
    last: "`- ",
    trunk: "|  ",
};

const BLANK: &str = "   ";

/// Guides deeper than this are not drawn but counted: nobody can read them.
const DEEPEST: usize = 60;

/// The lines of the tree.
pub(super) fn lines(twigs: &[Twig], strokes: &Strokes, colour: Colour) -> Vec<String> {
    let lasts = last_children(twigs);
    // For each level whether the branch that leads here was its parent's last.
    let mut path: Vec<bool> = Vec::new();
    let mut lines = Vec::with_capacity(twigs.len());
    for (twig, last) in twigs.iter().zip(lasts) {
        path.truncate(twig.depth);
        path.resize(twig.depth, true);
        path.push(last);
        lines.push(format!("{}{}", guides(&path, strokes), text(twig, colour)));
    }
    lines
}

/// Two blanks a level: for scripts.
pub(super) fn indented(twigs: &[Twig]) -> Vec<String> {
    let line = |twig: &Twig| format!("{}{}", "  ".repeat(twig.depth), text(twig, Colour::No));
    twigs.iter().map(line).collect()
}

fn guides(path: &[bool], strokes: &Strokes) -> String {
    // The root has no guide of its own.
    let Some((own, above)) = path.get(1..).and_then(<[bool]>::split_last) else {
        return String::new();
    };
    let hidden = above.len().saturating_sub(DEEPEST);
    let mut guides = match hidden {
        0 => String::new(),
        levels => format!("({levels} levels) "),
    };
    for last in &above[hidden..] {
        guides.push_str(if *last { BLANK } else { strokes.trunk });
    }
    guides.push_str(if *own { strokes.last } else { strokes.branch });
    guides
}

/// For each line whether no sibling follows it.
fn last_children(twigs: &[Twig]) -> Vec<bool> {
    let mut lasts = vec![true; twigs.len()];
    // From below: whether a line of that depth was seen since one less deep.
    let mut seen: Vec<bool> = Vec::new();
    for (number, twig) in twigs.iter().enumerate().rev() {
        if seen.len() <= twig.depth {
            seen.resize(twig.depth + 1, false);
        }
        lasts[number] = !seen[twig.depth];
        seen[twig.depth] = true;
        seen.truncate(twig.depth + 1);
    }
    lasts
}

fn text(twig: &Twig, colour: Colour) -> String {
    let cells = twig.cells.iter();
    let cells = cells.map(|cell| painted(&one_line(&cell.text), cell.tone, colour));
    cells.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn twig(depth: usize, text: &str) -> Twig {
        Twig {
            depth,
            cells: vec![text.into()],
        }
    }

    #[test]
    fn guides_lead_from_parents_to_children() {
        let twigs = [(0, "a"), (1, "b"), (2, "c"), (2, "d"), (1, "e"), (0, "f")];
        let twigs = twigs.map(|(depth, text)| twig(depth, text));
        assert_eq!(
            lines(&twigs, &LINES, Colour::No),
            ["a", "├─ b", "│  ├─ c", "│  └─ d", "└─ e", "f"]
        );
        assert_eq!(
            lines(&twigs, &ASCII, Colour::No)[2..4],
            ["|  |- c", "|  `- d"]
        );
        assert_eq!(indented(&twigs)[2], "    c");
    }

    #[test]
    fn a_tree_of_any_depth_is_drawn() {
        let twigs: Vec<Twig> = (0..10_000).map(|depth| twig(depth, "x")).collect();
        let lines = lines(&twigs, &LINES, Colour::No);
        assert_eq!(lines.len(), twigs.len());
        assert!(
            lines[9_999].starts_with("(9938 levels) "),
            "{}",
            lines[9_999]
        );
    }
}
