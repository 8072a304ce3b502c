//! The lines that a terminal shows after a program wrote to it: enough of a terminal for a status
//! line that is redrawn.

/// The width that a program assumes for a terminal of unknown size.
const WIDTH: usize = 80;

/// Returns the lines, without colours and trailing blanks.
pub(crate) fn screen_lines(output: &str) -> Vec<String> {
    let mut lines: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0_usize, 0_usize);
    let mut rest = output.chars();
    while let Some(character) = rest.next() {
        match character {
            '\r' => column = 0,
            '\n' => {
                row += 1;
                column = 0;
            }
            '\u{1b}' => {
                let mut argument = String::new();
                let mut sequence = rest.by_ref().skip_while(|it| *it == '[');
                let last = loop {
                    match sequence.next() {
                        Some(it) if it.is_ascii_alphabetic() => break it,
                        Some(it) => argument.push(it),
                        None => break 'm',
                    }
                };
                let number = argument.parse().unwrap_or(1_usize);
                match last {
                    'A' => row = row.saturating_sub(number),
                    'B' => row += number,
                    'K' if argument == "2" => lines[row].clear(),
                    'K' => lines[row].truncate(column),
                    'J' => lines.truncate(row + 1),
                    'm' | 'h' | 'l' => {}
                    other => panic!("a sequence that this terminal does not know: {other}"),
                }
            }
            character => {
                // The next line begins with the first character that does not fit.
                if column == WIDTH {
                    row += 1;
                    column = 0;
                    lines.resize(lines.len().max(row + 1), Vec::new());
                }
                let line = &mut lines[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = character;
                column += 1;
            }
        }
        if lines.len() <= row {
            lines.resize(row + 1, Vec::new());
        }
    }
    let text = |line: Vec<char>| line.into_iter().collect::<String>().trim_end().to_owned();
    lines.into_iter().map(text).collect()
}
