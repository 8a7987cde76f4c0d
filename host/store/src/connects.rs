//! Connect codes and their exchange.

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

/// Result of issuing a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeIssued {
    Done(ConnectCode),
    /// The code is live and the merchant is not approved for live.
    NotLiveApproved,
    NoSuchMerchant,
}

/// Result of counting a use of a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeUsed {
    /// The use was counted. Contains the updated code.
    Counted(ConnectCode),
    /// The code is live, but the limit of such uses is reached.
    NoMore,
    /// The code is unknown, redeemed, burned or expired.
    Dead,
}

/// Everything that an exchange creates.
#[derive(Clone, Debug)]
pub struct ConnectExchange {
    /// The code to redeem.
    pub code: TokenHash,
    /// The key, for the code's merchant and environment.
    pub key: ApiKey,
    /// The endpoint, for the same merchant and environment.
    pub endpoint: Endpoint,
    pub endpoint_secrets: EndpointSecrets,
    /// The shop domain to verify, without its subdomains.
    pub domain: String,
}

/// Result of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exchanged {
    /// Everything was created. The results of an earlier exchange of the same merchant, environment and site
    /// were removed.
    Done {
        connection: ShopConnection,
        /// Number of deliveries to the earlier endpoint that were cancelled with it. If there are very many,
        /// [`crate::Deliveries::sweep`] counts the rest.
        cancelled: u64,
    },
    /// The code is unknown, redeemed, burned or expired.
    Dead,
    /// The code is live and the merchant is no longer approved for live.
    NotLiveApproved,
    /// This endpoint of the merchant in the environment has the address, and was not created by an earlier
    /// exchange of the same site.
    EndpointTaken(EndpointId),
    /// The merchant has the maximum number of endpoints in this environment.
    TooManyEndpoints,
    /// The merchant has the maximum number of domains.
    TooManyDomains,
}

/// Connect codes and exchanges.
pub trait Connects: Send + Sync {
    /// Writes a new code. A live one requires an approved merchant.
    fn issue_connect_code(
        &self,
        code: ConnectCode,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, CodeIssued>;

    /// Returns a code by its hash. `None` if it is unknown or ended more than a day ago.
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

    /// Redeems a code for a key, an endpoint and a domain, in one transaction, which also removes the results
    /// of an earlier exchange: its endpoint is deleted and its key revoked. The audit line's `before`
    /// contains both.
    fn exchange(
        &self,
        exchange: ConnectExchange,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Exchanged>;
}

/// A connection, in the form for the audit log.
pub(crate) fn told(connection: &ShopConnection) -> String {
    serde_json::json!({
        "key_id": connection.key.to_string(),
        "webhook_endpoint_id": connection.endpoint.to_string(),
        "connected_at": connection.connected_at.rfc3339(),
    })
    .to_string()
}

/// Verifies a domain, unless it is verified already, in which case an operator's setting for subdomains
/// stays. False if the merchant has the maximum number of domains.
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
