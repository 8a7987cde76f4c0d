//! Operators.

use kassette_domain::audit::Audited;
use kassette_domain::id::OperatorId;
use kassette_domain::key::TokenHash;
use kassette_domain::operator::Operator;
use kassette_domain::operator::OperatorChange;
use kassette_domain::time::Time;

use crate::postgres::database::{Failure, TransactionWork, Tx, execute, row, rows};
use crate::postgres::lists::ListPosition;
use crate::postgres::{PostgresStore, audit, millis, uuid};
use crate::rows::records::OTHER_COLUMNS;
use crate::rows::seal::Sealer;
use crate::rows::{records, schema};
use crate::{Fault, Listed, MAX_OPERATORS, Paging};

fn decode(sealer: &Sealer, hash: &[u8], body: &[u8]) -> Result<Operator, Fault> {
    let hash = hash
        .try_into()
        .map_err(|_| Fault::Corrupt("the hash of an operator's token".into()))?;
    records::decode(sealer, &schema::operator(TokenHash(hash)), body)
}

/// Checks the id, which is a column without a MAC. Otherwise another operator than the intended one would be used,
/// changed or removed.
fn with_id(operator: Operator, id: OperatorId) -> Result<Operator, Fault> {
    match operator.id == id {
        true => Ok(operator),
        false => Err(records::damaged(
            &schema::operator(operator.hash),
            OTHER_COLUMNS,
        )),
    }
}

pub(super) struct CreateOperator {
    pub(super) operator: Operator,
    pub(super) audited: Audited,
    pub(super) now: Time,
}

impl TransactionWork for CreateOperator {
    type Outcome = Option<Operator>;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Self::Outcome, Failure> {
        let operator = &self.operator;
        let others = rows(tx, "SELECT hash, body FROM operator", &[]).await?;
        if others.len() >= MAX_OPERATORS {
            let why = format!("the maximum of {MAX_OPERATORS} operators is reached: remove one");
            return Err(Fault::Unavailable(why).into());
        }
        for other in &others {
            // A damaged operator must not block others.
            let other = records::readable(decode(tx.sealer(), other.get(0), other.get(1)))?;
            if other.is_some_and(|other| other.is_called(&operator.name)) {
                return Ok(None);
            }
        }
        let body = records::encode(tx.sealer(), &schema::operator(operator.hash), operator)?;
        let sql = "INSERT INTO operator (hash, id, created_at, body) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
        let (hash, id) = (&operator.hash.0[..], uuid(operator.id.as_bytes()));
        if execute(
            tx,
            sql,
            &[&hash, &id, &millis(operator.created_at), &&body[..]],
        )
        .await?
            == 0
        {
            return Err(Fault::Unavailable("the token or its id is in use".into()).into());
        }
        audit::append(tx, self.audited.clone(), self.now).await?;
        Ok(Some(operator.clone()))
    }
}

/// Changes an operator's role, sessions or questions.
pub(super) struct ChangeOperator {
    pub(super) id: OperatorId,
    pub(super) change: OperatorChange,
    pub(super) audited: Option<Audited>,
    pub(super) now: Time,
}

impl TransactionWork for ChangeOperator {
    type Outcome = Option<Operator>;
    /// Operators are read from the database for each request, so no node has to be waited for.
    const CHANGES_DIRECTORY: bool = false;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Self::Outcome, Failure> {
        let sql = "/* operator: lock */ SELECT hash, body FROM operator WHERE id = $1 FOR UPDATE";
        let Some(found) = row(tx, sql, &[&uuid(self.id.as_bytes())]).await? else {
            return Ok(None);
        };
        let mut operator = with_id(decode(tx.sealer(), found.get(0), found.get(1))?, self.id)?;
        if !operator.apply(&self.change, self.now) {
            return Ok(None);
        }
        let body = records::encode(tx.sealer(), &schema::operator(operator.hash), &operator)?;
        let sql = "UPDATE operator SET body = $2 WHERE hash = $1";
        execute(tx, sql, &[&&operator.hash.0[..], &&body[..]]).await?;
        if let Some(audited) = &self.audited {
            audit::append(tx, audited.clone(), self.now).await?;
        }
        Ok(Some(operator))
    }
}

/// Removes an operator, so that its token is unknown.
pub(super) struct RemoveOperator {
    pub(super) id: OperatorId,
    pub(super) audited: Audited,
    pub(super) now: Time,
}

impl TransactionWork for RemoveOperator {
    type Outcome = Option<Operator>;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Self::Outcome, Failure> {
        let sql = "DELETE FROM operator WHERE id = $1 RETURNING hash, body";
        let Some(removed) = row(tx, sql, &[&uuid(self.id.as_bytes())]).await? else {
            return Ok(None);
        };
        let operator = decode(tx.sealer(), removed.get(0), removed.get(1))?;
        let operator = with_id(operator, self.id)?;
        audit::append(tx, self.audited.clone(), self.now).await?;
        Ok(Some(operator))
    }
}

impl PostgresStore {
    pub(super) async fn operator_read(&self, hash: TokenHash) -> Result<Option<Operator>, Fault> {
        let sql = "SELECT hash, body FROM operator WHERE hash = $1";
        let found = self.requests.read_one(sql, &[&&hash.0[..]]).await?;
        found
            .map(|row| decode(&self.secrets.sealer, row.get(0), row.get(1)))
            .transpose()
    }

    pub(super) async fn operator_read_by_id(
        &self,
        id: OperatorId,
    ) -> Result<Option<Operator>, Fault> {
        let sql = "SELECT hash, body FROM operator WHERE id = $1";
        let found = self.requests.read_one(sql, &[&uuid(id.as_bytes())]).await?;
        found
            .map(|row| {
                let operator = decode(&self.secrets.sealer, row.get(0), row.get(1))?;
                with_id(operator, id)
            })
            .transpose()
    }

    pub(super) async fn operators_listed(&self, paging: Paging) -> Result<Listed<Operator>, Fault> {
        let sql =
            "SELECT hash, body, created_at, id FROM operator WHERE (created_at, id) < ($1, $2)
            ORDER BY created_at DESC, id DESC LIMIT $3";
        self.list_by_time(b"otm/", paging, sql, &[], |sealer, row| {
            let operator = decode(sealer, row.get(0), row.get(1))?;
            Ok((ListPosition(row.get(2), row.get(3)), operator))
        })
        .await
    }
}
