//! Connect codes and what comes of them.

use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::connect::{CodeUse, ConnectCode, ShopConnection};
use kassette_domain::id::{EndpointId, MerchantId};
use kassette_domain::key::{ApiKey, TokenHash};
use kassette_domain::merchant::Merchant;
use kassette_domain::site::VerifiedDomain;
use kassette_domain::time::Time;
use kassette_domain::webhook::{Endpoint, EndpointSecrets};

use crate::{Listed, Paging, StoreFuture};

/// How long a code is listed after its end.
pub(crate) const LISTED_FOR: Duration = Duration::from_secs(24 * 3600);

/// What became of issuing a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeIssued {
    Done(ConnectCode),
    /// A live code for a merchant that is not approved for live.
    NotLiveApproved,
    NoSuchMerchant,
}

/// What became of counting a use of a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeUsed {
    /// Counted; the code as it is now.
    Counted(ConnectCode),
    /// The code is live and allows no more such uses.
    NoMore,
    /// The code is unknown, redeemed, burned or expired.
    Dead,
}

/// Everything that an exchange makes.
#[derive(Clone, Debug)]
pub struct ConnectExchange {
    /// The code to redeem.
    pub code: TokenHash,
    /// The key, of the code's merchant and environment.
    pub key: ApiKey,
    /// The endpoint, likewise.
    pub endpoint: Endpoint,
    pub endpoint_secrets: EndpointSecrets,
    /// The shop domain that is verified, without its subdomains.
    pub domain: String,
}

/// What became of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exchanged {
    /// All of it is there, and what an earlier exchange of the same merchant, environment and site
    /// made is not any more.
    Done {
        connection: ShopConnection,
        /// How many deliveries to the earlier endpoint were cancelled with it.
        /// [`crate::Deliveries::sweep`] counts the rest of a great many.
        cancelled: u64,
    },
    /// The code is unknown, redeemed, burned or expired.
    Dead,
    /// A live code of a merchant that is not approved for live any more.
    NotLiveApproved,
    /// This one of the merchant's endpoints in the environment has the address, and was not made by an
    /// earlier exchange of the same site.
    EndpointTaken(EndpointId),
    /// The merchant has as many endpoints in this environment as it can.
    TooManyEndpoints,
    /// The merchant has as many domains as it can.
    TooManyDomains,
}

/// Connect codes and exchanges.
pub trait Connects: Send + Sync {
    /// Writes a new code. A live one needs an approved merchant.
    fn issue_connect_code(
        &self,
        code: ConnectCode,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, CodeIssued>;

    /// A code by its hash; none where it is unknown, or ended more than a day ago.
    fn connect_code(&self, hash: TokenHash) -> StoreFuture<'_, Option<ConnectCode>>;

    /// Lists a merchant's codes, newest first, for a day after their end.
    fn connect_codes(
        &self,
        merchant: MerchantId,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<ConnectCode>>;

    /// Counts a use of a live code that does not redeem it.
    fn use_connect_code(
        &self,
        hash: TokenHash,
        used: CodeUse,
        now: Time,
    ) -> StoreFuture<'_, CodeUsed>;

    /// Redeems a code for key, endpoint and domain: all of it in one transaction, or nothing. What an
    /// earlier exchange made goes in the same transaction: its endpoint is deleted, its key revoked;
    /// the audit line's `before` names both.
    fn exchange(
        &self,
        exchange: ConnectExchange,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Exchanged>;
}

/// A connection for the audit log.
pub(crate) fn told(connection: &ShopConnection) -> String {
    serde_json::json!({
        "key_id": connection.key.to_string(),
        "webhook_endpoint_id": connection.endpoint.to_string(),
        "connected_at": connection.connected_at.rfc3339(),
    })
    .to_string()
}

/// Verifies a domain, unless it is: an operator may have let its subdomains in. False where the
/// merchant has no room for it.
pub(crate) fn verify(merchant: &mut Merchant, domain: String) -> bool {
    if merchant.domains.iter().any(|known| known.domain == domain) {
        return true;
    }
    if merchant.domains.len() >= Merchant::MAX_DOMAINS {
        return false;
    }
    merchant.domains.push(VerifiedDomain {
        domain,
        include_subdomains: false,
    });
    true
}
