//! Whole row groups for an engine whose threads fill row groups of their own.
//!
//! Each of DuckDB's threads ends with a row group that is not full. Where there are few full ones between two of them,
//! closing the file joins them, which stores them once more and leaves their first place in the file empty. A thread that
//! is given whole row groups has nothing left over. Where rows are stored in their order, DuckDB copies and joins what of a
//! row group its threads have, unless it comes whole.

use crate::plan::WholeRowGroups;
use arrow_array::{Array, RecordBatch};
use std::collections::VecDeque;

/// Joins batches to row groups; where these are limited in number, those behind them stay as they are.
#[derive(Debug)]
pub(super) struct RowGroups {
    plan: WholeRowGroups,
    /// How many are still handed over whole.
    left: usize,
    /// With more rows than this none are: nothing would be joined, and they take memory.
    most_rows: Option<u64>,
    /// What was received and is not handed over yet: less than a row group, while some are left.
    waiting: VecDeque<RecordBatch>,
}

impl RowGroups {
    pub(super) fn new(plan: WholeRowGroups) -> Self {
        let most_rows = plan.count.map(|count| (plan.rows * count) as u64);
        Self { plan, left: plan.count.unwrap_or(usize::MAX), most_rows, waiting: VecDeque::new() }
    }

    /// The next batch for the engine, of those that `receive` gives until there are no more.
    ///
    /// `expected_rows` says how many rows there will be, as far as is known.
    pub(super) fn next(
        &mut self,
        mut receive: impl FnMut() -> Option<RecordBatch>,
        expected_rows: impl Fn() -> Option<u64>,
    ) -> Option<RecordBatch> {
        let Some(left) = self.left.checked_sub(1) else { return self.waiting.pop_front().or_else(receive) };
        self.left = left;
        let mut rows = self.waiting.iter().map(RecordBatch::num_rows).sum::<usize>();
        let mut bytes = self.waiting.iter().map(size_of).sum::<usize>();
        while rows < self.plan.rows {
            let Some(batch) = receive() else { break };
            rows += batch.num_rows();
            bytes += size_of(&batch);
            self.waiting.push_back(batch);
            let many = self.most_rows.is_some_and(|most| expected_rows().is_some_and(|rows| rows > most));
            if many || bytes > self.plan.most_bytes {
                if self.most_rows.is_none() {
                    break;
                }
                self.left = 0;
                return self.waiting.pop_front();
            }
        }
        self.take(rows.min(self.plan.rows))
    }

    /// So many rows of those that wait.
    fn take(&mut self, rows: usize) -> Option<RecordBatch> {
        let (mut parts, mut missing) = (Vec::new(), rows);
        while let Some(batch) = self.waiting.pop_front() {
            if batch.num_rows() > missing {
                self.waiting.push_front(batch.slice(missing, batch.num_rows() - missing));
                if missing > 0 {
                    parts.push(batch.slice(0, missing));
                }
                break;
            }
            missing -= batch.num_rows();
            parts.push(batch);
        }
        if parts.len() <= 1 {
            return parts.pop();
        }
        match arrow_select::concat::concat_batches(&parts[0].schema(), &parts) {
            Ok(joined) => Some(joined),
            // Dictionaries that have too many labels together.
            Err(_) => {
                self.left = 0;
                parts.into_iter().rev().for_each(|part| self.waiting.push_front(part));
                self.waiting.pop_front()
            }
        }
    }
}

/// The bytes of a batch's own rows, which may be a part of larger arrays.
fn size_of(batch: &RecordBatch) -> usize {
    let own = |column: &dyn Array| column.to_data().get_slice_memory_size().unwrap_or(column.get_array_memory_size());
    batch.columns().iter().map(|column| own(column)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int8Type, Int64Type};
    use arrow_array::{ArrayRef, DictionaryArray, Int64Array};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn plan(rows: usize, count: impl Into<Option<usize>>, most_bytes: usize) -> WholeRowGroups {
        let count = count.into();
        WholeRowGroups { rows, count, most_bytes }
    }

    /// Batches of so many rows each, numbered through.
    fn batches(lengths: &[usize]) -> Vec<RecordBatch> {
        let mut first = 0;
        let numbered = |&length: &usize| {
            let array: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + length as i64));
            first += length as i64;
            RecordBatch::try_from_iter([("n", array)]).unwrap()
        };
        lengths.iter().map(numbered).collect()
    }

    /// What comes out: the numbers of each batch.
    fn handed_over(groups: &mut RowGroups, batches: Vec<RecordBatch>) -> Vec<Vec<i64>> {
        let mut source = batches.into_iter();
        std::iter::from_fn(|| groups.next(|| source.next(), || None))
            .map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
            .collect()
    }

    fn lengths(batches: &[Vec<i64>]) -> Vec<usize> {
        batches.iter().map(Vec::len).collect()
    }

    proptest! {
        #[test]
        fn every_row_once_and_in_order(
            given in proptest::collection::vec(0usize..40, 0..30), rows in 1usize..50,
            count in prop_oneof![Just(None), (0usize..8).prop_map(Some)],
            most_bytes in prop_oneof![Just(usize::MAX), 0usize..1000],
        ) {
            let out = handed_over(&mut RowGroups::new(plan(rows, count, most_bytes)), batches(&given));
            let total = given.iter().sum::<usize>() as i64;
            prop_assert_eq!(out.concat(), (0..total).collect::<Vec<_>>());
            if most_bytes == usize::MAX {
                let whole = out.iter().take(count.unwrap_or(usize::MAX)).take(total as usize / rows);
                prop_assert!(whole.clone().all(|batch| batch.len() == rows), "{:?}", lengths(&out));
            }
        }
    }

    #[test]
    fn the_first_ones_are_whole_and_the_others_as_they_come() {
        let out = handed_over(&mut RowGroups::new(plan(10, 2, usize::MAX)), batches(&[4, 4, 4, 30, 3, 3]));
        assert_eq!(lengths(&out), [10, 10, 22, 3, 3]);
    }

    #[test]
    fn rows_that_are_too_wide_are_not_joined() {
        // Eight bytes a row: four rows are too many, and what has come by then goes on as it came.
        let out = handed_over(&mut RowGroups::new(plan(10, 5, 24)), batches(&[3, 1, 2, 9]));
        assert_eq!(lengths(&out), [3, 1, 2, 9]);
        // Where all are to be as long as they can, they end there.
        let out = handed_over(&mut RowGroups::new(plan(10, None, 24)), batches(&[3, 1, 2, 1, 3, 9]));
        assert_eq!(lengths(&out), [4, 6, 9]);
    }

    #[test]
    fn of_many_rows_none_are_joined() {
        for (expected, first) in [(None, 10), (Some(20), 10), (Some(21), 3)] {
            let mut groups = RowGroups::new(plan(10, 2, usize::MAX));
            let mut source = batches(&[3, 7, 3, 7]).into_iter();
            let batch = groups.next(|| source.next(), || expected).unwrap();
            assert_eq!(batch.num_rows(), first, "{expected:?}");
        }
    }

    #[test]
    fn what_cannot_be_joined_is_handed_over_as_it_came() {
        let labels = |from: i64| {
            let texts: Vec<String> = (from..from + 100).map(|n| n.to_string()).collect();
            let array: DictionaryArray<Int8Type> = texts.iter().map(String::as_str).collect();
            RecordBatch::try_from_iter([("label", Arc::new(array) as ArrayRef)]).unwrap()
        };
        let mut groups = RowGroups::new(plan(150, 5, usize::MAX));
        let mut source = [labels(0), labels(100), labels(200)].into_iter();
        let rows: Vec<usize> =
            std::iter::from_fn(|| groups.next(|| source.next(), || None)).map(|batch| batch.num_rows()).collect();
        assert_eq!(rows.iter().sum::<usize>(), 300);
        assert_eq!(rows[0], 100);
    }
}
