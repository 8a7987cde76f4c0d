//! Operators.

use kassette_domain::audit::Audited;
use kassette_domain::id::OperatorId;
use kassette_domain::key::TokenHash;
use kassette_domain::operator::Operator;
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
            let why = format!("there are {MAX_OPERATORS} operators: remove one that is not needed");
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
        // Otherwise another operator would be removed instead of the intended one.
        if operator.id != self.id {
            let key = schema::operator(operator.hash);
            return Err(records::damaged(&key, OTHER_COLUMNS).into());
        }
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
