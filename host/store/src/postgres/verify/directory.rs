//! Checks of merchants, keys, operators, resellers and codes: the content of each row, and whether the rows
//! that it refers to exist.

use std::collections::HashSet;

use kassette_domain::connect::{ConnectCode, ShopConnection};
use kassette_domain::consent::ConsentCode;
use kassette_domain::delegation::{Delegation, DelegationStatus};
use kassette_domain::id::{AccountId, InvitationId};
use kassette_domain::invitation::Reply;
use kassette_domain::key::{ApiKey, TokenHash};
use kassette_domain::operator::Operator;
use kassette_domain::reseller::Reseller;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::newest::{GONE, NewestEntries};
use crate::postgres::columns::{id, merchant_id, reseller_id};
use crate::postgres::directory::keys;
use crate::postgres::errors::OpenError;
use crate::postgres::verify::COLUMNS;
use crate::postgres::verify::reading::{CheckedRow, Reading};
use crate::postgres::{millis, number, uuid};
use crate::rows::schema::Key;
use crate::rows::seal::Secrets;
use crate::rows::{invitations, merchants, records, schema};

const MERCHANTS: &str = "/* verify: merchants */ SELECT id, body, live_approved FROM merchant";
const KEYS: &str = "/* verify: keys */ SELECT k.hash, k.body, k.id, k.owner_kind, k.owner, k.environment, k.created_at,
        k.expires_at, k.revoked, m.id IS NOT NULL, r.id IS NOT NULL
    FROM api_key k LEFT JOIN merchant m ON k.owner_kind = 0 AND m.id = k.owner
        LEFT JOIN reseller r ON k.owner_kind = 1 AND r.id = k.owner";
const SEEN: &str = "/* verify: keys seen */ SELECT s.hash, k.hash IS NOT NULL
    FROM api_key_seen s LEFT JOIN api_key k ON k.hash = s.hash";
const OPERATORS: &str = "/* verify: operators */ SELECT hash, body, id, created_at FROM operator";
const SWITCHES: &str = "/* verify: switches */ SELECT account, body FROM account_switch";
const RESELLERS: &str = "/* verify: resellers */ SELECT id, body, live_rollout FROM reseller";
const INVITATIONS: &str =
    "/* verify: invitations */ SELECT i.id, i.body, i.reseller, i.client_ref, i.token_hash,
        i.created_at, i.merchant, d.merchant IS NOT NULL, r.id IS NOT NULL
    FROM invitation i LEFT JOIN delegation d ON d.reseller = i.reseller AND d.merchant = i.merchant
        LEFT JOIN reseller r ON r.id = i.reseller";
const DELEGATIONS: &str =
    "/* verify: delegations */ SELECT d.reseller, d.merchant, d.body, d.authorized, d.invitation,
        d.created_at, i.id IS NOT NULL, m.id IS NOT NULL, r.id IS NOT NULL
    FROM delegation d LEFT JOIN invitation i ON i.id = d.invitation
        LEFT JOIN merchant m ON m.id = d.merchant LEFT JOIN reseller r ON r.id = d.reseller";
const CONSENT_CODES: &str =
    "/* verify: consent codes */ SELECT handle, body, expires_at FROM consent_code";
const CONNECT_CODES: &str =
    "/* verify: connect codes */ SELECT c.hash, c.body, c.id, c.merchant, c.created_at,
        c.expires_at FROM connect_code c";
const CONNECTIONS: &str =
    "/* verify: connections */ SELECT merchant, environment, origin, body FROM connection";
const KNOWN_MERCHANTS: &str = "/* verify: merchants */ SELECT id FROM merchant";
const DELEGATION_IDS: &str = "/* verify: delegations */ SELECT reseller, merchant FROM delegation";
const OPERATOR_IDS: &str = "/* verify: operators */ SELECT id FROM operator";
const KNOWN_KEYS: &str = "/* verify: keys */ SELECT id FROM api_key";

const NO_MERCHANT: &str = "the merchant whose it is is missing";
const NO_RESELLER: &str = "the reseller whose it is is missing";

pub(super) async fn read(
    reading: &mut Reading<'_>,
    newest: &NewestEntries,
) -> Result<(), OpenError> {
    let look = |row: &Row, secrets: &Secrets| merchant(newest, row, secrets);
    reading.each("merchant", MERCHANTS, look).await?;
    let look = |row: &Row, secrets: &Secrets| api_key(newest, row, secrets);
    reading.each("api-key", KEYS, look).await?;
    reading.each("api-key-seen", SEEN, seen).await?;
    let look = |row: &Row, secrets: &Secrets| operator(newest, row, secrets);
    reading.each("operator", OPERATORS, look).await?;
    let look = |row: &Row, secrets: &Secrets| switch(newest, row, secrets);
    reading.each("account-switch", SWITCHES, look).await?;
    let operators: HashSet<Uuid> = reading.all(OPERATOR_IDS, |row| row.get(0)).await?;
    for id in newest.operators() {
        if !operators.contains(&uuid(id.as_bytes())) {
            reading.find("operator", &schema::operator_index(id), GONE);
        }
    }
    let accounts: HashSet<String> = reading.all(SWITCHES, |row| row.get(0)).await?;
    for account in newest.switched_off() {
        if !accounts.contains(account.as_str()) {
            reading.find("account-switch", &schema::switch(account), GONE);
        }
    }
    let look = |row: &Row, secrets: &Secrets| reseller(newest, row, secrets);
    reading.each("reseller", RESELLERS, look).await?;
    reading.each("invitation", INVITATIONS, invitation).await?;
    let look = |row: &Row, secrets: &Secrets| delegation(newest, row, secrets);
    reading.each("delegation", DELEGATIONS, look).await?;
    let granted: HashSet<(i64, i64)> = reading
        .all(DELEGATION_IDS, |row| (row.get(0), row.get(1)))
        .await?;
    for (reseller, merchant) in newest.delegations() {
        if !granted.contains(&(number(reseller.0), number(merchant.0))) {
            let key = schema::resellers::delegation(reseller, merchant);
            reading.find("delegation", &key, GONE);
        }
    }
    let known = NamedIds {
        merchants: reading.all(KNOWN_MERCHANTS, |row| row.get(0)).await?,
        keys: reading.all(KNOWN_KEYS, |row| row.get(0)).await?,
        connections: reading.all(CONNECTIONS, connection_key).await?,
    };
    let look = |row: &Row, secrets: &Secrets| consent_code(&known, row, secrets);
    reading.each("consent-code", CONSENT_CODES, look).await?;
    let look = |row: &Row, secrets: &Secrets| connect_code(&known, row, secrets);
    reading.each("connect-code", CONNECT_CODES, look).await?;
    let look = |row: &Row, secrets: &Secrets| connection(&known, row, secrets);
    reading.each("connection", CONNECTIONS, look).await
}

/// Ids that only bodies contain, without a column.
struct NamedIds {
    merchants: HashSet<i64>,
    keys: HashSet<Uuid>,
    connections: HashSet<Key>,
}

/// The hash in the first column; the zero hash, which no row has, if its length is wrong.
fn hash(row: &Row) -> TokenHash {
    TokenHash(row.get::<_, &[u8]>(0).try_into().unwrap_or_default())
}

/// A failed check.
const fn wrong(what: &'static str) -> (bool, &'static str) {
    (false, what)
}

fn merchant(newest: &NewestEntries, row: &Row, secrets: &Secrets) -> CheckedRow {
    let id = merchant_id(row, 0);
    let key = schema::merchant(id);
    let looked = merchants::decode(&secrets.sealer, &key, row.get(1)).map(|merchant| {
        let mut looked = vec![
            (merchant.id == id, "it is another merchant's"),
            (merchant.live_approved == row.get::<_, bool>(2), COLUMNS),
        ];
        looked.extend(newest.merchant(&merchant).map(wrong));
        looked
    });
    (key, looked)
}

fn api_key(newest: &NewestEntries, row: &Row, secrets: &Secrets) -> CheckedRow {
    let key = schema::api_key(hash(row));
    let looked = records::decode::<ApiKey>(&secrets.sealer, &key, row.get(1)).map(|api_key| {
        let (kind, owner) = keys::owner(api_key.owner);
        let columns = uuid(api_key.id.as_bytes()) == row.get::<_, Uuid>(2)
            && (kind, owner) == (row.get(3), row.get(4))
            && keys::environment(api_key.environment) == row.get::<_, i16>(5)
            && millis(api_key.created_at) == row.get::<_, i64>(6)
            && api_key.expires_at.map(millis) == row.get(7)
            && api_key.revoked_at.is_some() == row.get::<_, bool>(8);
        let mut looked = vec![
            (api_key.hash == hash(row), "it is another key's"),
            (columns, COLUMNS),
            (kind != 0 || row.get(9), NO_MERCHANT),
            (kind == 0 || row.get(10), NO_RESELLER),
        ];
        looked.extend(newest.key(&api_key).map(wrong));
        looked
    });
    (key, looked)
}

fn seen(row: &Row, _: &Secrets) -> CheckedRow {
    let known = vec![(row.get(1), "the key that was seen is missing")];
    (schema::api_key_seen(hash(row)), Ok(known))
}

fn operator(newest: &NewestEntries, row: &Row, secrets: &Secrets) -> CheckedRow {
    let key = schema::operator(hash(row));
    let looked = records::decode::<Operator>(&secrets.sealer, &key, row.get(1)).map(|operator| {
        let columns = uuid(operator.id.as_bytes()) == row.get::<_, Uuid>(2)
            && millis(operator.created_at) == row.get::<_, i64>(3);
        let mut looked = vec![
            (operator.hash == hash(row), "it is another operator's"),
            (columns, COLUMNS),
        ];
        looked.extend(newest.operator(&operator).map(wrong));
        looked
    });
    (key, looked)
}

fn switch(newest: &NewestEntries, row: &Row, secrets: &Secrets) -> CheckedRow {
    let text: &str = row.get(0);
    let key = [schema::SWITCHES, text.as_bytes()].concat();
    let decoded = records::decode::<(AccountId, bool)>(&secrets.sealer, &key, row.get(1));
    let looked = decoded.map(|(account, enabled)| {
        let mut looked = vec![(account.as_str() == text, "it is another account's")];
        looked.extend(newest.switch(&account, enabled).map(wrong));
        looked
    });
    (key, looked)
}

fn reseller(newest: &NewestEntries, row: &Row, secrets: &Secrets) -> CheckedRow {
    let id = reseller_id(row, 0);
    let key = schema::resellers::reseller(id);
    let looked = records::decode::<Reseller>(&secrets.sealer, &key, row.get(1)).map(|reseller| {
        let mut looked = vec![
            (reseller.id == id, "it is another reseller's"),
            (reseller.live_rollout == row.get::<_, bool>(2), COLUMNS),
        ];
        looked.extend(newest.reseller(&reseller).map(wrong));
        looked
    });
    (key, looked)
}

fn invitation(row: &Row, secrets: &Secrets) -> CheckedRow {
    let id = id(row, 0, InvitationId::from_bytes);
    let key = schema::resellers::invitation(id);
    let decoded = records::decode(&secrets.sealer, &key, row.get(1));
    let opened = decoded.and_then(|decoded| invitations::open(&secrets.sealer, id, decoded));
    let looked = opened.map(|invitation| {
        let merchant = match invitation.reply {
            Reply::Accepted { merchant, .. } => Some(number(merchant.0)),
            Reply::Open | Reply::Declined { .. } => None,
        };
        let columns = number(invitation.reseller.0) == row.get::<_, i64>(2)
            && invitation.client_ref.as_str().as_bytes() == row.get::<_, &[u8]>(3)
            && TokenHash::hash(invitation.token.expose()).0 == row.get::<_, &[u8]>(4)
            && millis(invitation.created_at) == row.get::<_, i64>(5)
            && merchant == row.get(6);
        let lost = "it was accepted, and what came of it is missing";
        vec![
            (columns, COLUMNS),
            (merchant.is_none() || row.get(7), lost),
            (row.get(8), NO_RESELLER),
        ]
    });
    (key, looked)
}

fn delegation(newest: &NewestEntries, row: &Row, secrets: &Secrets) -> CheckedRow {
    let (reseller, merchant) = (reseller_id(row, 0), merchant_id(row, 1));
    let key = schema::resellers::delegation(reseller, merchant);
    let looked =
        records::decode::<Delegation>(&secrets.sealer, &key, row.get(2)).map(|delegation| {
            let between = (delegation.reseller, delegation.merchant);
            let invitation = delegation.invitation.map(|id| uuid(id.as_bytes()));
            let is_authorized = delegation.status() == DelegationStatus::Authorized;
            let columns = is_authorized == row.get::<_, bool>(3)
                && invitation == row.get(4)
                && millis(delegation.created_at) == row.get::<_, i64>(5);
            let uninvited = "the invitation that it comes from is missing";
            let mut looked = vec![
                (
                    between == (reseller, merchant),
                    "it is another delegation's",
                ),
                (columns, COLUMNS),
                (invitation.is_none() || row.get(6), uninvited),
                (row.get(7), NO_MERCHANT),
                (row.get(8), NO_RESELLER),
            ];
            looked.extend(newest.delegation(&delegation).map(wrong));
            looked
        });
    (key, looked)
}

fn consent_code(known: &NamedIds, row: &Row, secrets: &Secrets) -> CheckedRow {
    let key = schema::resellers::consent(hash(row));
    let looked = records::decode::<ConsentCode>(&secrets.sealer, &key, row.get(1)).map(|code| {
        let is_known = known.merchants.contains(&number(code.merchant.0));
        vec![
            (code.handle == hash(row), "it is another code's"),
            (millis(code.expires_at) == row.get::<_, i64>(2), COLUMNS),
            (is_known, NO_MERCHANT),
        ]
    });
    (key, looked)
}

fn connect_code(known: &NamedIds, row: &Row, secrets: &Secrets) -> CheckedRow {
    let key = schema::connect::code(hash(row));
    let looked = records::decode::<ConnectCode>(&secrets.sealer, &key, row.get(1)).map(|code| {
        let columns = uuid(code.id.as_bytes()) == row.get::<_, Uuid>(2)
            && number(code.merchant.0) == row.get::<_, i64>(3)
            && millis(code.created_at) == row.get::<_, i64>(4)
            && millis(code.expires_at) == row.get::<_, i64>(5);
        let made = schema::connect::connection(code.merchant, code.environment, &code.origin);
        let is_made = code.redeemed_at.is_none() || known.connections.contains(&made);
        let is_known = known.merchants.contains(&number(code.merchant.0));
        vec![
            (code.hash == hash(row), "it is another code's"),
            (columns, COLUMNS),
            (is_known, NO_MERCHANT),
            (is_made, "what it was redeemed for is missing"),
        ]
    });
    (key, looked)
}

fn connection_key(row: &Row) -> Key {
    let world: &[u8] = match row.get::<_, i16>(1) {
        0 => b"t",
        _ => b"l",
    };
    let (merchant, origin) = (row.get::<_, i64>(0).to_be_bytes(), row.get(2));
    [schema::connect::CONNECTIONS, &merchant, world, origin].concat()
}

/// The connection that an exchange created. Its endpoint may have been deleted since.
fn connection(known: &NamedIds, row: &Row, secrets: &Secrets) -> CheckedRow {
    let key = connection_key(row);
    let looked = records::decode::<ShopConnection>(&secrets.sealer, &key, row.get(3)).map(|made| {
        let own = schema::connect::connection(made.merchant, made.environment, &made.origin);
        let has_key = known.keys.contains(&uuid(made.key.as_bytes()));
        let is_known = known.merchants.contains(&number(made.merchant.0));
        vec![
            (own == key, "it is another connection's"),
            (has_key, "the key that was made is missing"),
            (is_known, NO_MERCHANT),
        ]
    });
    (key, looked)
}
