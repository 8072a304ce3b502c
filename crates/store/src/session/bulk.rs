//! Many rows in few statements: a server's answer to each row by itself would take its time.

use crate::value::Param;

/// How many rows a statement takes, the most first. Few sizes are few statements to prepare.
const BATCH_SIZES: [usize; 3] = [100, 10, 1];

/// Cuts `rows` into pieces of these sizes, in their order.
pub(super) fn split_batches<T>(rows: &[T]) -> Vec<&[T]> {
    let mut pieces = Vec::new();
    let mut rest = rows;
    for size in BATCH_SIZES {
        while rest.len() >= size {
            let (piece, behind) = rest.split_at(size);
            pieces.push(piece);
            rest = behind;
        }
    }
    pieces
}

/// Parameters of a statement that begin with those of all rows.
pub(super) struct BulkRows<'a> {
    pub(super) params: Vec<Param<'a>>,
    value_lists: Vec<String>,
}

impl<'a> BulkRows<'a> {
    pub(super) fn with_params(params: Vec<Param<'a>>) -> Self {
        Self {
            params,
            value_lists: Vec::new(),
        }
    }

    /// Adds a row. Its numbers are said to be numbers, for a list of values has no columns to
    /// take their type from.
    pub(super) fn push<const N: usize>(&mut self, row: [Param<'a>; N]) {
        let mut marks = Vec::with_capacity(N);
        for param in row {
            let number = self.params.len() + 1;
            marks.push(match &param {
                Param::Integer(_) => format!("CAST(?{number} AS BIGINT)"),
                _ => format!("?{number}"),
            });
            self.params.push(param);
        }
        self.value_lists.push(format!("({})", marks.join(", ")));
    }

    /// The rows as a source whose columns are `column1`, `column2`, …
    pub(super) fn source(&self) -> String {
        format!("(VALUES {}) AS given", self.value_lists.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::params;

    #[test]
    fn batches_hold_every_row_once_in_order() {
        for length in [0, 1, 9, 10, 99, 100, 101, 255] {
            let rows: Vec<usize> = (0..length).collect();
            let cut = split_batches(&rows);
            assert_eq!(cut.concat(), rows);
            assert!(cut.iter().all(|piece| BATCH_SIZES.contains(&piece.len())));
        }
        assert_eq!(split_batches(&[0; 255]).len(), 2 + 5 + 5);
    }

    #[test]
    fn row_parameters_follow_the_common_parameters() {
        let mut rows = BulkRows::with_params(params!["plan"].to_vec());
        rows.push([Param::from("a"), Param::from(1)]);
        rows.push([Param::from("b"), Param::from(2)]);
        assert_eq!(
            rows.source(),
            "(VALUES (?2, CAST(?3 AS BIGINT)), (?4, CAST(?5 AS BIGINT))) AS given"
        );
        assert_eq!(rows.params.len(), 5);
    }
}
