//! Numbers for the columns that rows keep cells of, so that a list sorted or filtered by a field reads it from each row once.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::field::FieldPath;
use super::row::KEPT_COLUMNS;

/// The columns asked for lately. A column that was not asked for in a long time loses its number.
#[derive(Default)]
pub(crate) struct Columns(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Those asked for last at the end.
    columns: VecDeque<(u32, FieldPath)>,
    /// The last number given.
    numbers: u32,
}

impl Columns {
    /// The number of a column.
    pub(crate) fn number(&self, path: &FieldPath) -> u32 {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.columns.iter().position(|(_, known)| known == path);
        let column = match at.and_then(|at| known.columns.remove(at)) {
            Some(column) => column,
            None => {
                known.numbers = known.numbers.wrapping_add(1);
                (known.numbers, path.clone())
            }
        };
        let number = column.0;
        known.columns.push_back(column);
        if known.columns.len() > KEPT_COLUMNS {
            known.columns.pop_front();
        }
        number
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn columns_nobody_asks_for_make_room() {
        let columns = Columns::default();
        let path = |i: usize| FieldPath::parse(&format!("spec.f{i}")).unwrap();
        let first = columns.number(&path(0));
        for i in 1..KEPT_COLUMNS {
            columns.number(&path(i));
        }
        assert_eq!(columns.number(&path(0)), first);
        columns.number(&path(KEPT_COLUMNS));
        assert_eq!(columns.number(&path(0)), first, "it was asked for lately");
        let second = columns.number(&path(1));
        assert!(second as usize > KEPT_COLUMNS, "a number is not used again for another column");
    }
}
