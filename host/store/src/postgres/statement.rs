//! One statement of several parts that changes several tables atomically: it ends with an assertion, and if
//! that fails everything is rolled back.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::Fault;
use crate::postgres::database::{Database, Failure, Tx, row};

/// An argument of a part.
pub(crate) type Argument = Box<dyn ToSql + Sync + Send>;

/// Arguments of a part, or values of a row.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        vec![$(Box::new($value) as $crate::postgres::statement::Argument),*]
    };
}
pub(crate) use values;

/// One column of a batch.
pub(crate) fn column<'b, C, T>(batch: &'b [C], of: impl FnMut(&'b C) -> T) -> Vec<T> {
    batch.iter().map(of).collect()
}

/// Composes a statement from parts.
#[derive(Default)]
pub(crate) struct StatementBuilder {
    text: String,
    assertion: String,
    answers: String,
    arguments: Vec<Argument>,
}

impl StatementBuilder {
    /// Adds `name AS (sql)`. In `sql`, the part's own arguments are `$1`, `$2`, ... It can read other parts by
    /// name. No part sees another part's changes, and no two parts may change the same table.
    pub(crate) fn add(&mut self, name: &str, sql: &str, arguments: Vec<Argument>) {
        self.text += if self.text.is_empty() { "WITH " } else { ", " };
        self.text += name;
        self.text += " AS (";
        self.text += &renumbered(sql, self.arguments.len());
        self.text += ")";
        self.arguments.extend(arguments);
    }

    /// Requires that the part returns exactly `rows` rows; otherwise nothing is changed.
    pub(crate) fn assert(&mut self, name: &str, rows: usize) {
        if !self.assertion.is_empty() {
            self.assertion += " AND ";
        }
        self.assertion += &format!("(SELECT count(*) FROM {name}) = {rows}");
    }

    /// Adds an expression over parts to the result; the first one is column 1.
    pub(crate) fn answer(&mut self, expression: &str) {
        self.answers += ", ";
        self.answers += expression;
    }

    /// Whether there are no parts.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    fn sql(&self) -> String {
        let assertion = if self.assertion.is_empty() {
            "true"
        } else {
            &self.assertion
        };
        format!(
            "{} SELECT 1 / ({assertion})::int{}",
            self.text, self.answers
        )
    }

    fn arguments(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.arguments
            .iter()
            .map(|each| &**each as &(dyn ToSql + Sync))
            .collect()
    }

    /// Executes the statement in its own transaction and returns the answers.
    pub(crate) async fn write(&self, database: &Database) -> Result<Row, Failure> {
        let rows = database.write(&self.sql(), &self.arguments()).await?;
        rows.into_iter().next().ok_or_else(nothing)
    }

    /// Executes the statement in an open transaction.
    pub(crate) async fn write_in(&self, tx: &Tx<'_>) -> Result<Row, Failure> {
        row(tx, &self.sql(), &self.arguments())
            .await?
            .ok_or_else(nothing)
    }
}

fn nothing() -> Failure {
    Fault::Unavailable("a statement answered nothing".into()).into()
}

/// A part's text, with its arguments renumbered to follow earlier ones.
fn renumbered(sql: &str, from: usize) -> String {
    let mut pieces = sql.split('$');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = piece.split_at(digits);
        let number = number.parse::<usize>().map_or(0, |number| number + from);
        text += &format!("${number}{rest}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_parts_are_counted_on() {
        assert_eq!(
            renumbered("a = $1 AND b = $12::int", 3),
            "a = $4 AND b = $15::int"
        );
        assert_eq!(renumbered("true", 3), "true");
    }
}
