//! Inserts many rows with few statements, because one server round trip per row would be slow.

use crate::value::Param;

/// The numbers of rows per statement, largest first. Few sizes mean few statements to prepare.
const BATCH_SIZES: [usize; 3] = [100, 10, 1];

/// Splits `rows` into batches of these sizes, in order.
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

/// The parameters of a statement, beginning with those shared by all rows.
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

    /// Adds a row. Integers are cast explicitly, because a VALUES list has no columns to infer
    /// their type from.
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

    /// The rows as a SQL source with columns `column1`, `column2`, …
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
