//! What is said of a value of a batch that the target does not take.

use super::Context;
use crate::error::Error;
use crate::plan::Target;
use crate::source::locate::{self, Complaint};
use tipple_codec::encode::batch::{BatchProblem, Loss, Unfit};
use tipple_codec::value::Refusal;

impl Context<'_> {
    /// Why the load has to begin anew as COPY text, where the server may be left to read a value that it alone can read.
    pub(super) fn left_to_server(&self, problem: &BatchProblem, text: &[u8], is_number: bool) -> Option<Error> {
        let Target::Postgres(target) = &self.plan.target else { return None };
        if !target.server_may_read || !self.is_for_server(problem, is_number) {
            return None;
        }
        let column = &self.plan.columns[problem.column].name;
        Some(Error::OnlyServerReads { reason: format!("\"{}\" in column {column}", locate::shown(text)) })
    }

    /// Whether it is a text that a server might read. What was a number in the source is none.
    fn is_for_server(&self, problem: &BatchProblem, is_number: bool) -> bool {
        let is_unsure = problem.unfit == Unfit::Refused(Refusal::Unsure);
        is_unsure && !is_number && matches!(self.plan.target, Target::Postgres(_))
    }

    /// What is wrong with a value of a batch; `is_number`: whether the source has a number there.
    pub(super) fn batch_complaint(&self, problem: &BatchProblem, text: &[u8], is_number: bool) -> Complaint {
        let columns = self.columnar.as_ref().map_or(&self.plan.columns, |job| &job.columns);
        let column = &columns[problem.column];
        let text = locate::shown(text);
        let (reason, sqlstate, remedy) = match problem.unfit {
            Unfit::Refused(refusal) => {
                let (mut reason, sqlstate, remedy) = locate::describe_refusal(refusal, column, &text);
                let for_server = self.is_for_server(problem, is_number);
                if for_server {
                    let type_name = locate::type_name(&column.kind);
                    reason = format!("\"{text}\" is in no form of {type_name} that is read without the server");
                }
                // Options of delimited text are of no use here.
                let remedy = match sqlstate {
                    _ if for_server => {
                        "write it in its ISO form where the file is made, or let the server read it: --write-path text"
                            .into()
                    }
                    "23502" => "give a value, or drop the constraint".into(),
                    "22021" => "mend the value, or give the column a type for bytes".into(),
                    "22007" if is_number => format!(
                        "a number does not say what it counts, or from when: make it a {} where the source is made, or \
                         load it into a column of numbers",
                        locate::type_name(&column.kind)
                    ),
                    _ => remedy,
                };
                (reason, sqlstate, remedy)
            }
            // No server refuses these, so there is no code for them.
            Unfit::Lossy(Loss::Nanoseconds) => (
                format!(
                    "value \"{text}\" has nanoseconds, and {} counts microseconds",
                    locate::type_name(&column.kind)
                ),
                "",
                "round the column to microseconds, or load it into a column of type text".into(),
            ),
            Unfit::Lossy(Loss::TimeOfDay) => (
                format!("value \"{text}\" has a time of day, which {} does not store", locate::type_name(&column.kind)),
                "",
                "cut the column to days, or load it into a column of type timestamp".into(),
            ),
            Unfit::Lossy(Loss::Day) => (
                format!("value \"{text}\" has a day, which {} does not store", locate::type_name(&column.kind)),
                "",
                "leave nothing but the time of day, or load it into a column of type timestamp".into(),
            ),
            Unfit::Lossy(Loss::Fraction) => (
                format!("value \"{text}\" has a number with a fraction, where the column stores whole ones"),
                "",
                "round it where the source is made, or give the column a type for such numbers".into(),
            ),
            Unfit::Lossy(Loss::Number) => (
                format!("value \"{text}\" has a number, where the column stores true and false"),
                "",
                "make it true or false where the source is made, or give the column a type for numbers".into(),
            ),
            Unfit::Lossy(Loss::Field) => (
                format!("value \"{text}\" has a field that the column's type does not have"),
                "",
                "leave it out where the source is made, or give the column's type that field".into(),
            ),
        };
        Complaint { column: Some(column.name.clone()), text, reason, sqlstate: sqlstate.into(), remedy }
    }
}
