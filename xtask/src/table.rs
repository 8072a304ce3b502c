//! A plain text table with aligned columns.

/// Renders the rows below their heads, with columns padded to the widest cell.
pub fn render(heads: &[&str], rows: &[Vec<String>]) -> String {
    let heads: Vec<String> = heads.iter().map(ToString::to_string).collect();
    let widths: Vec<usize> = (0..heads.len())
        .map(|column| widest(std::iter::once(&heads).chain(rows), column))
        .collect();
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    [&heads, &rule]
        .into_iter()
        .chain(rows)
        .map(|row| format_row(row, &widths))
        .collect::<Vec<_>>()
        .join("\n")
}

fn widest<'a>(rows: impl Iterator<Item = &'a Vec<String>>, column: usize) -> usize {
    rows.filter_map(|row| row.get(column))
        .map(|cell| cell.chars().count())
        .max()
        .unwrap_or(0)
}

fn format_row(row: &[String], widths: &[usize]) -> String {
    let cells: Vec<String> = row
        .iter()
        .zip(widths)
        .map(|(cell, width)| format!("{cell:<width$}"))
        .collect();
    cells.join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["journal".into(), "3".into()]];
        let text = super::render(&["area", "memory"], &rows);
        assert_eq!(text, "area     memory\n-------  ------\njournal  3");
    }
}
