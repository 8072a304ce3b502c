//! Trees as lines with guides from parents to children. Nothing here is recursive, because a tree
//! may be arbitrarily deep.

use super::layout::paint;
use super::model::TreeRow;
use super::render_options::ColourMode;
use super::text::escape_line;

/// The characters of the guides.
pub(super) struct TreeGuides {
    branch: &'static str,
    last: &'static str,
    trunk: &'static str,
}

pub(super) const UNICODE: TreeGuides = TreeGuides {
    branch: "├─ ",
    last: "└─ ",
    trunk: "│  ",
};

pub(super) const ASCII: TreeGuides = TreeGuides {
    branch: "|- ",
    last: "`- ",
    trunk: "|  ",
};

const BLANK: &str = "   ";

/// At most this many levels of guides are drawn. The levels above them are only counted, because
/// more guides would be unreadable.
const DEPTH_MAXIMUM: usize = 60;

pub(super) fn render_lines(
    rows: &[TreeRow],
    strokes: &TreeGuides,
    colour: ColourMode,
) -> Vec<String> {
    let lasts = last_children(rows);
    // For each level: whether the ancestor there is its parent's last child.
    let mut path: Vec<bool> = Vec::new();
    let mut lines = Vec::with_capacity(rows.len());
    for (row, last) in rows.iter().zip(lasts) {
        path.truncate(row.depth);
        path.resize(row.depth, true);
        path.push(last);
        lines.push(format!("{}{}", guides(&path, strokes), text(row, colour)));
    }
    lines
}

/// Indents by two spaces per level, for scripts.
pub(super) fn render_indented(rows: &[TreeRow]) -> Vec<String> {
    let line = |row: &TreeRow| format!("{}{}", "  ".repeat(row.depth), text(row, ColourMode::No));
    rows.iter().map(line).collect()
}

fn guides(path: &[bool], strokes: &TreeGuides) -> String {
    // A root has no guide.
    let Some((own, above)) = path.get(1..).and_then(<[bool]>::split_last) else {
        return String::new();
    };
    let hidden = above.len().saturating_sub(DEPTH_MAXIMUM);
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

/// Returns for each line whether it is its parent's last child.
fn last_children(rows: &[TreeRow]) -> Vec<bool> {
    let mut lasts = vec![true; rows.len()];
    // Scans upwards. `seen[depth]` says whether a later sibling at that depth exists.
    let mut seen: Vec<bool> = Vec::new();
    for (number, row) in rows.iter().enumerate().rev() {
        if seen.len() <= row.depth {
            seen.resize(row.depth + 1, false);
        }
        lasts[number] = !seen[row.depth];
        seen[row.depth] = true;
        seen.truncate(row.depth + 1);
    }
    lasts
}

fn text(row: &TreeRow, colour: ColourMode) -> String {
    let cells = row.cells.iter();
    let cells = cells.map(|cell| paint(&escape_line(&cell.text), cell.tone, colour));
    cells.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree_row(depth: usize, text: &str) -> TreeRow {
        TreeRow {
            depth,
            cells: vec![text.into()],
        }
    }

    #[test]
    fn guides_lead_from_parents_to_children() {
        let rows = [(0, "a"), (1, "b"), (2, "c"), (2, "d"), (1, "e"), (0, "f")];
        let rows = rows.map(|(depth, text)| tree_row(depth, text));
        assert_eq!(
            render_lines(&rows, &UNICODE, ColourMode::No),
            ["a", "├─ b", "│  ├─ c", "│  └─ d", "└─ e", "f"]
        );
        assert_eq!(
            render_lines(&rows, &ASCII, ColourMode::No)[2..4],
            ["|  |- c", "|  `- d"]
        );
        assert_eq!(render_indented(&rows)[2], "    c");
    }

    #[test]
    fn a_tree_of_any_depth_is_drawn() {
        let rows: Vec<TreeRow> = (0..10_000).map(|depth| tree_row(depth, "x")).collect();
        let lines = render_lines(&rows, &UNICODE, ColourMode::No);
        assert_eq!(lines.len(), rows.len());
        assert!(
            lines[9_999].starts_with("(9938 levels) "),
            "{}",
            lines[9_999]
        );
    }
}
