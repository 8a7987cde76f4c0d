//! Operators.

use kassette_domain::audit::Audited;
use kassette_domain::id::OperatorId;
use kassette_domain::key::TokenHash;
use kassette_domain::operator::Operator;
use kassette_domain::time::Time;
use kassette_engine::{Operation, Span};

use crate::rows::source::{RowSource, Save as _};
use crate::rows::{records, schema};
use crate::sled::audit;
use crate::sled::memory::{Memory, Rows};
use crate::{Fault, MAX_OPERATORS};

pub(crate) struct CreateOperator {
    pub(crate) operator: Operator,
    pub(crate) audited: Audited,
    pub(crate) now: Time,
}

impl Operation<Memory> for CreateOperator {
    type Outcome = Option<Operator>;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault> {
        let operator = self.operator;
        let others = rows.scan(&Span::prefix(schema::OPERATORS), MAX_OPERATORS)?;
        if others.len() == MAX_OPERATORS {
            let why = format!("there are {MAX_OPERATORS} operators: remove one that is not needed");
            return Err(Fault::Unavailable(why));
        }
        for (key, hash) in others {
            let other = records::decode(rows.sealer(), &key, &hash)
                .and_then(|hash| rows.load(&schema::operator(hash)));
            // A damaged operator does not block others.
            let other: Option<Operator> = records::readable(other)?.flatten();
            if other.is_some_and(|other| other.is_called(&operator.name)) {
                return Ok(None);
            }
        }
        let row = schema::operator(operator.hash);
        let index = schema::operator_index(operator.id);
        if rows.get(&row)?.is_some() || rows.get(&index)?.is_some() {
            return Err(Fault::Unavailable("the token or its id is in use".into()));
        }
        rows.save(row, &operator)?;
        rows.save(index, &operator.hash)?;
        let by_time = schema::operator_by_time(operator.created_at, operator.id);
        rows.save(by_time, &operator.hash)?;
        audit::append(rows, self.audited, self.now)?;
        Ok(Some(operator))
    }
}

/// Removes an operator. Its token is unknown afterwards.
pub(crate) struct RemoveOperator {
    pub(crate) id: OperatorId,
    pub(crate) audited: Audited,
    pub(crate) now: Time,
}

impl Operation<Memory> for RemoveOperator {
    type Outcome = Option<Operator>;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault> {
        let index = schema::operator_index(self.id);
        let Some(hash) = rows.load::<TokenHash>(&index)? else {
            return Ok(None);
        };
        let row = schema::operator(hash);
        let operator: Operator = rows.expect(&row)?;
        rows.remove(row);
        rows.remove(index);
        rows.remove(schema::operator_by_time(operator.created_at, operator.id));
        audit::append(rows, self.audited, self.now)?;
        Ok(Some(operator))
    }
}
