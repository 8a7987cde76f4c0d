//! Connect codes and exchanges.

pub(crate) mod checks;

use std::ops::ControlFlow;
use std::sync::Arc;

use kassette_domain::audit::Audited;
use kassette_domain::connect::{CodeUse, ConnectCode, ShopConnection};
use kassette_domain::id::MerchantId;
use kassette_domain::key::TokenHash;
use kassette_domain::time::Time;
use kassette_domain::webhook::Endpoint;
use kassette_engine::{Operation, Span};

use crate::connects::{LISTED_FOR, told, verify};
use crate::rows::seal::Secrets;
use crate::rows::source::{RowSource, Save as _};
use crate::rows::{merchants, records, schema};
use crate::sled::audit;
use crate::sled::lists::{Order, TIME_AND_ID};
use crate::sled::memory::{Memory, Rows};
use crate::sled::merchants::api_keys;
use crate::sled::store::SledStore;
use crate::sled::webhooks::endpoints;
use crate::{
    CodeIssued, CodeUsed, ConnectExchange, Connects, Exchanged, Fault, Listed, Paging, StoreFuture,
};

struct IssueCode {
    code: ConnectCode,
    audited: Audited,
    now: Time,
}

impl Operation<Memory> for IssueCode {
    type Outcome = CodeIssued;

    fn apply(self, rows: &mut Rows<'_>) -> Result<CodeIssued, Fault> {
        let code = self.code;
        let Some(merchant) = merchants::load(rows, code.merchant)? else {
            return Ok(CodeIssued::NoSuchMerchant);
        };
        if !merchant.may_use(code.environment) {
            return Ok(CodeIssued::NotLiveApproved);
        }
        sweep(rows, self.now)?;
        let row = schema::connect::code(code.hash);
        if rows.get(&row)?.is_some() {
            return Err(Fault::Unavailable("the connect code is in use".into()));
        }
        rows.save(row, &code)?;
        rows.save(schema::connect::code_of(&code), &code.hash)?;
        rows.save(schema::connect::end_of(&code), &())?;
        audit::append(rows, self.audited, self.now)?;
        Ok(CodeIssued::Done(code))
    }
}

struct UseCode {
    hash: TokenHash,
    used: CodeUse,
    now: Time,
}

impl Operation<Memory> for UseCode {
    type Outcome = CodeUsed;

    fn apply(self, rows: &mut Rows<'_>) -> Result<CodeUsed, Fault> {
        let row = schema::connect::code(self.hash);
        let Some(mut code) = live(rows, self.hash, self.now)? else {
            return Ok(CodeUsed::Dead);
        };
        if !code.note(self.used) {
            return Ok(CodeUsed::NoMore);
        }
        rows.save(row, &code)?;
        Ok(CodeUsed::Counted(code))
    }
}

struct Redeem {
    exchange: ConnectExchange,
    audited: Audited,
    now: Time,
    secrets: Arc<Secrets>,
}

impl Operation<Memory> for Redeem {
    type Outcome = Exchanged;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Exchanged, Fault> {
        let ConnectExchange {
            code: hash,
            key,
            endpoint,
            endpoint_secrets,
            domain,
        } = self.exchange;
        let Some(mut code) = live(rows, hash, self.now)? else {
            return Ok(Exchanged::Dead);
        };
        let mut merchant = merchants::expect(rows, code.merchant)?;
        if !merchant.may_use(code.environment) {
            return Ok(Exchanged::NotLiveApproved);
        }
        let connection_key =
            schema::connect::connection(code.merchant, code.environment, &code.origin);
        let before: Option<ShopConnection> = rows.load(&connection_key)?;
        // All checks come before the first write.
        let leaving = before.as_ref().map(|before| before.endpoint);
        let others = endpoints::beside(rows, &endpoint, leaving)?;
        if let Some(same) = Endpoint::at(&others, &endpoint.url) {
            return Ok(Exchanged::EndpointTaken(same.id));
        }
        if others.len() >= Endpoint::MAX_PER_OWNER {
            return Ok(Exchanged::TooManyEndpoints);
        }
        if !verify(&mut merchant, domain) {
            return Ok(Exchanged::TooManyDomains);
        }
        let mut cancelled = 0;
        if let Some(before) = &before {
            let deleted = endpoints::delete(rows, before.endpoint)?;
            cancelled = deleted.map_or(0, |deleted| deleted.cancelled);
            api_keys::revoke(rows, before.key, self.now)?;
        }
        let connection = ShopConnection {
            merchant: code.merchant,
            environment: code.environment,
            origin: code.origin.clone(),
            code: code.id,
            key: key.id,
            endpoint: endpoint.id,
            connected_at: self.now,
        };
        code.redeemed_at = Some(self.now);
        rows.save(schema::connect::code(hash), &code)?;
        api_keys::write_new(rows, &key)?;
        endpoints::write_new(rows, &self.secrets.sealer, &endpoint, &endpoint_secrets)?;
        let (key, row) = merchants::encode(rows.sealer(), &merchant)?;
        rows.put(key, row);
        rows.save(connection_key, &connection)?;
        let audited = Audited {
            before: before.as_ref().map(told),
            ..self.audited
        };
        audit::append(rows, audited, self.now)?;
        Ok(Exchanged::Done {
            connection,
            cancelled,
        })
    }
}

/// Returns a code that can still be redeemed.
fn live(rows: &Rows<'_>, hash: TokenHash, now: Time) -> Result<Option<ConnectCode>, Fault> {
    let code: Option<ConnectCode> = rows.load(&schema::connect::code(hash))?;
    Ok(code.filter(|code| code.is_live(now)))
}

/// Removes some of the codes that ended long ago. Returns whether there may be more.
pub(crate) fn sweep(rows: &mut Rows<'_>, now: Time) -> Result<bool, Fault> {
    let rest = rows.walk(Span::prefix(schema::connect::CODE_ENDS), |rows, end, _| {
        let Some((ended, hash)) = schema::connect::read_end(end) else {
            return Err(records::damaged(end, "it names no code"));
        };
        if now < ended.after(LISTED_FOR) {
            return Ok(ControlFlow::Break(()));
        }
        let row = schema::connect::code(hash);
        if let Some(code) = rows.load::<ConnectCode>(&row)? {
            rows.remove(schema::connect::code_of(&code));
            rows.remove(row);
        }
        rows.remove(end.clone());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(rest.is_some())
}

impl Connects for SledStore {
    fn issue_connect_code(
        &self,
        code: ConnectCode,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, CodeIssued> {
        self.operate(IssueCode { code, audited, now })
    }

    fn connect_code(&self, hash: TokenHash) -> StoreFuture<'_, Option<ConnectCode>> {
        self.read(move |view| view.load(&schema::connect::code(hash)))
    }

    fn connect_codes(
        &self,
        merchant: MerchantId,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<ConnectCode>> {
        let (prefix, order) = (schema::connect::codes_of(merchant), Order::Keys);
        self.list(&prefix, TIME_AND_ID, order, &paging, |view, key, row| {
            let hash: TokenHash = records::decode(view.sealer(), key, row)?;
            view.load(&schema::connect::code(hash))
        })
    }

    fn use_connect_code(
        &self,
        hash: TokenHash,
        used: CodeUse,
        now: Time,
    ) -> StoreFuture<'_, CodeUsed> {
        self.operate(UseCode { hash, used, now })
    }

    fn exchange(
        &self,
        exchange: ConnectExchange,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Exchanged> {
        // The worker ends the deliveries that still wait for the earlier endpoint.
        self.operate_ringing(Redeem {
            exchange,
            audited,
            now,
            secrets: Arc::clone(&self.secrets),
        })
    }
}
