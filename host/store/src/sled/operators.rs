//! Operators.

use kassette_domain::audit::Audited;
use kassette_domain::id::OperatorId;
use kassette_domain::key::TokenHash;
use kassette_domain::operator::Operator;
use kassette_domain::time::Time;

use super::applier::Operation;
use super::rows::{Rows, Source};
use super::{audits, keys};
use crate::Fault;

/// A new operator.
pub(super) struct CreateOperator {
    pub(super) operator: Operator,
    pub(super) audited: Audited,
    pub(super) now: Time,
}

impl Operation for CreateOperator {
    type Outcome = Operator;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Operator, Fault> {
        let operator = self.operator;
        let row = keys::operator(operator.hash);
        let index = keys::operator_index(operator.id);
        if rows.get(&row)?.is_some() || rows.get(&index)?.is_some() {
            return Err(Fault::Unavailable("the token or its id is in use".into()));
        }
        rows.save(row, &operator)?;
        rows.save(index, &operator.hash)?;
        let by_time = keys::operator_by_time(operator.created_at, operator.id);
        rows.save(by_time, &operator.hash)?;
        audits::append(rows, self.audited, self.now)?;
        Ok(operator)
    }
}

/// The end of an operator: its token is unknown from now on.
pub(super) struct RemoveOperator {
    pub(super) id: OperatorId,
    pub(super) audited: Audited,
    pub(super) now: Time,
}

impl Operation for RemoveOperator {
    type Outcome = Option<Operator>;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault> {
        let index = keys::operator_index(self.id);
        let Some(hash) = rows.load::<TokenHash>(&index)? else {
            return Ok(None);
        };
        let row = keys::operator(hash);
        let operator: Operator = rows.expect(&row)?;
        rows.remove(row);
        rows.remove(index);
        rows.remove(keys::operator_by_time(operator.created_at, operator.id));
        audits::append(rows, self.audited, self.now)?;
        Ok(Some(operator))
    }
}
