//! Connecting a shop: an operator issues a one-time code, the shop's plugin exchanges it for a key.
//!
//! Checks run in a fixed order: code, site, proof, live approval. Then the shop is asked for the proof,
//! and one transaction redeems the code and creates everything. The loser of a race finds the code redeemed.

use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::connect::{
    Challenge, CodeUse, ConnectCode, Proof, ShopConnection, SiteUrl, WebhookPath,
};
use kassette_domain::id::{ConnectCodeId, EndpointId, KeyId, MerchantId};
use kassette_domain::key::{
    ApiKey, Environment, KeyOwner, Scope, TokenHash, TokenKind, read_token,
};
use kassette_domain::secret::Secret;
use kassette_domain::site::BadSite;
use kassette_domain::time::Time;
use kassette_domain::webhook::{
    DeliveryStatus, Endpoint, EndpointCreator, EndpointSecrets, EventFilter, generate_secret,
};
use kassette_http::{Client, HeaderMap, Method, Request, SendError, StatusCode};
use kassette_store::{CodeIssued, CodeUsed, ConnectExchange, Exchanged, Fault, Listed, Paging};
use serde_json::json;
use url::Url;

use crate::Gateway;
use crate::keyed_lock::KeyedLock;
use crate::webhooks::{NotADestination, count_ended};

/// Time limit of the request to the shop: name resolution, connection, request and response (decisions,
/// "Connect and releases").
const FETCH: Duration = Duration::from_secs(10);
/// Maximum size of the shop's response, in bytes.
const FETCH_BYTES: usize = 4 << 10;
/// `Retry-After` of a concurrent exchange of the same code: the time limit of the request to the shop.
const COME_AGAIN: Duration = FETCH;

pub(crate) struct Connecting {
    client: Client,
    /// Allows one exchange per code at a time, so that concurrent ones do not all send requests to the shop.
    code_locks: KeyedLock<TokenHash>,
}

impl Connecting {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            code_locks: KeyedLock::default(),
        }
    }
}

/// Reason why an address cannot be a shop's site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotASite {
    #[error(transparent)]
    Form(#[from] BadSite),
    /// Events could not be delivered there.
    #[error(transparent)]
    Destination(#[from] NotADestination),
}

/// Parameters of a code to be issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewConnectCode {
    pub merchant: MerchantId,
    /// Environment of the shop's payments.
    pub environment: Environment,
    pub site: SiteUrl,
    /// Scopes of the key that the shop will get.
    pub scopes: Vec<Scope>,
}

/// A new code. Shown only here.
#[derive(Clone, Debug)]
pub struct IssuedConnectCode {
    pub code: ConnectCode,
    /// `kc_…`
    pub shown: Secret,
}

/// Reason why no code was issued.
#[derive(Debug, thiserror::Error)]
pub enum ConnectCodeError {
    #[error("merchant not found")]
    NoSuchMerchant,
    #[error("environment: the merchant is not approved for live; approve it first")]
    NotLiveApproved,
    #[error(transparent)]
    Random(#[from] getrandom::Error),
    #[error(transparent)]
    Store(#[from] Fault),
}

/// An exchange request from a shop's plugin.
#[derive(Clone, Debug)]
pub struct ConnectClaim {
    pub code: Secret,
    /// The site that the plugin claims to run on.
    pub site: SiteUrl,
    pub webhook_path: WebhookPath,
    /// Random challenge that the plugin chose.
    pub challenge: Challenge,
    /// Proof that the plugin knows the code.
    pub proof: Proof,
}

/// A connected shop, with secrets that are shown only here.
#[derive(Clone, Debug)]
pub struct Connected {
    pub connection: ShopConnection,
    /// `kp_…`
    pub api_key: Secret,
    pub scopes: Vec<Scope>,
    pub webhook_url: String,
    /// `whsec_…`
    pub webhook_secret: Secret,
    /// The shop domain under which return URLs are accepted.
    pub domain: String,
}

/// Reason why a shop was not connected.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(
        "the code is unknown, used, expired, or burned by wrong proofs; ask the operator for a new one"
    )]
    CodeRefused,
    /// Counted against the code.
    #[error("site_url: is not the site that the code was issued for")]
    OtherSite,
    /// Counted against the code.
    #[error("proof: is not HMAC-SHA256 of challenge, newline and site origin, keyed with the code")]
    WrongProof,
    #[error("live payments are not approved for this merchant any more")]
    NotLiveApproved,
    #[error("the site does not prove that it is the shop's: {0}")]
    NoControl(NoControl),
    #[error(
        "the site was asked {} times for this code; ask the operator for a new one",
        ConnectCode::MAX_FETCHES
    )]
    AskedTooOften,
    #[error(
        "webhook endpoint {0}, which no exchange of this site made, has the URL already; ask the operator to delete it"
    )]
    EndpointTaken(EndpointId),
    #[error("the merchant has as many webhook endpoints as it can; ask the operator to delete one")]
    TooManyEndpoints,
    #[error("the merchant has as many verified domains as it can; ask the operator to delete one")]
    TooManyDomains,
    /// All losers of a race get this. They may try again, in case the other exchange fails.
    #[error(
        "another exchange of the code is under way; if it fails, try again after the time in Retry-After"
    )]
    UnderWay {
        /// Time after which the other exchange has ended.
        retry_after: Duration,
    },
    #[error(transparent)]
    Random(#[from] getrandom::Error),
    #[error(transparent)]
    Store(#[from] Fault),
}

/// Reason why a site did not prove that it is the shop's. The site's operator reads this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoControl {
    #[error("{0}")]
    NoAnswer(#[from] SendError),
    /// The status was not 200. Redirects are not followed.
    #[error("it answered with the status {0} where 200 is needed; redirects are not followed")]
    Status(u16),
    #[error("its answer is not the proof, byte for byte")]
    OtherText,
}

impl Gateway {
    /// Parses a shop's site and checks that events can be delivered to the path.
    ///
    /// # Errors
    /// The reason why the site is not accepted.
    pub fn shop_site(&self, text: &str, webhooks: &WebhookPath) -> Result<SiteUrl, NotASite> {
        let site = SiteUrl::parse(text, self.settings().webhooks.allow_loopback)?;
        // The shop is always reached from outside, even in test, so its address must be public.
        self.judge_public_destination(&site.webhook_url(webhooks))?;
        Ok(site)
    }

    /// Issues a code for a shop. The audit line's object is set to `connect-code/<id>`.
    ///
    /// # Errors
    /// See [`ConnectCodeError`].
    pub async fn issue_connect_code(
        &self,
        new: NewConnectCode,
        audited: Audited,
    ) -> Result<IssuedConnectCode, ConnectCodeError> {
        let now = self.now();
        let shown = TokenKind::Connect.generate(getrandom::fill)?;
        let code = ConnectCode {
            id: ConnectCodeId::from_bytes(crate::random()?),
            hash: TokenHash::hash(shown.expose()),
            merchant: new.merchant,
            environment: new.environment,
            origin: new.site.origin().clone(),
            scopes: new.scopes,
            created_at: now,
            expires_at: now.after(ConnectCode::LIFE),
            wrong: 0,
            fetches: 0,
            redeemed_at: None,
        };
        let audited = Audited {
            object: format!("connect-code/{}", code.id),
            ..audited
        };
        match self.store().issue_connect_code(code, audited, now).await? {
            CodeIssued::Done(code) => Ok(IssuedConnectCode { code, shown }),
            CodeIssued::NotLiveApproved => Err(ConnectCodeError::NotLiveApproved),
            CodeIssued::NoSuchMerchant => Err(ConnectCodeError::NoSuchMerchant),
        }
    }

    /// Lists a merchant's codes, newest first.
    ///
    /// # Errors
    /// The store's.
    pub async fn connect_codes(
        &self,
        merchant: MerchantId,
        paging: Paging,
    ) -> Result<Listed<ConnectCode>, Fault> {
        self.store().connect_codes(merchant, paging).await
    }

    /// Exchanges a code for a key, a webhook endpoint and a verified domain, in one transaction.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(&self, claim: ConnectClaim) -> Result<Connected, ConnectError> {
        let outcome = self.exchange(&claim).await;
        let told = match &outcome {
            Ok(_) => "connected",
            Err(ConnectError::CodeRefused) => "code_refused",
            Err(ConnectError::UnderWay { .. }) => "under_way",
            Err(ConnectError::OtherSite | ConnectError::WrongProof) => "wrong_proof",
            Err(ConnectError::NoControl(_) | ConnectError::AskedTooOften) => "no_control",
            Err(_) => "failed",
        };
        metrics::counter!("kassette_connect_exchanges_total", "outcome" => told).increment(1);
        if let Ok(Connected { connection, .. }) = &outcome {
            tracing::info!(
                merchant.id = connection.merchant.0, site = %connection.origin,
                environment = %connection.environment, "a shop has connected"
            );
        }
        outcome
    }

    async fn exchange(&self, claim: &ConnectClaim) -> Result<Connected, ConnectError> {
        let Some((TokenKind::Connect, hash)) = read_token(claim.code.expose()) else {
            return Err(ConnectError::CodeRefused);
        };
        let code = self.live_code(hash).await?;
        if claim.site.origin() != &code.origin {
            return Err(self.count_wrong(hash, ConnectError::OtherSite).await);
        }
        if claim.proof != Proof::make(&claim.code, &claim.challenge, &code.origin) {
            return Err(self.count_wrong(hash, ConnectError::WrongProof).await);
        }
        let merchant = self.cached_merchant(code.merchant).await?;
        if merchant.is_none_or(|merchant| !merchant.may_use(code.environment)) {
            return Err(ConnectError::NotLiveApproved);
        }
        // Locks only this node: each of several nodes may send a request to the shop, and the store decides
        // which of them redeems the code.
        let guard = self.inner.connecting.code_locks.try_lock(hash);
        let _guard = guard.ok_or(ConnectError::UnderWay {
            retry_after: COME_AGAIN,
        })?;
        match self
            .store()
            .use_connect_code(hash, CodeUse::Fetch, self.now())
            .await?
        {
            CodeUsed::Counted(_) => {}
            CodeUsed::NoMore => return Err(ConnectError::AskedTooOften),
            CodeUsed::Dead => return Err(ConnectError::CodeRefused),
        }
        self.ask_shop(claim)
            .await
            .map_err(ConnectError::NoControl)?;
        self.redeem(&code, claim).await
    }

    async fn live_code(&self, hash: TokenHash) -> Result<ConnectCode, ConnectError> {
        let code = self.store().connect_code(hash).await?;
        code.filter(|code| code.is_live(self.now()))
            .ok_or(ConnectError::CodeRefused)
    }

    /// Counts a wrong site or proof against a code. If the code is burned, returns `CodeRefused` instead.
    async fn count_wrong(&self, hash: TokenHash, wrong: ConnectError) -> ConnectError {
        let used = self
            .store()
            .use_connect_code(hash, CodeUse::Wrong, self.now());
        match used.await {
            Ok(CodeUsed::Counted(_)) => wrong,
            Ok(CodeUsed::NoMore | CodeUsed::Dead) => ConnectError::CodeRefused,
            Err(fault) => fault.into(),
        }
    }

    /// Checks that the site answers the challenge with the proof.
    async fn ask_shop(&self, claim: &ConnectClaim) -> Result<(), NoControl> {
        let address = claim.challenge.claim_url(claim.site.origin());
        // Parsing cannot fail for an origin and a path of plain characters.
        let url = Url::parse(&address).map_err(|_| NoControl::OtherText)?;
        let request = Request {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            body: Vec::new().into(),
            deadline: FETCH,
            max_response: FETCH_BYTES,
            hosts: None,
        };
        let response = self.inner.connecting.client.send(request).await?;
        if response.status != StatusCode::OK {
            return Err(NoControl::Status(response.status.as_u16()));
        }
        if response.truncated || !claim.proof.is(&response.body) {
            return Err(NoControl::OtherText);
        }
        Ok(())
    }

    /// Redeems a code whose shop has proved its control of the site.
    async fn redeem(
        &self,
        code: &ConnectCode,
        claim: &ConnectClaim,
    ) -> Result<Connected, ConnectError> {
        let site = &claim.site;
        let now = self.now();
        let (key, api_key) = draw_key(code, now)?;
        let webhook_secret = generate_secret(getrandom::fill)?;
        let endpoint = Endpoint {
            id: EndpointId::from_bytes(crate::random()?),
            owner: KeyOwner::Merchant(code.merchant),
            environment: code.environment,
            url: site.webhook_url(&claim.webhook_path),
            event_types: EventFilter::All,
            enabled: true,
            created_at: now,
            created_by: EndpointCreator::Key(key.id),
            off: Vec::new(),
        };
        let audited = audited(code, &key, &endpoint, site);
        let webhook_url = endpoint.url.clone();
        let exchange = ConnectExchange {
            code: code.hash,
            key,
            endpoint,
            endpoint_secrets: EndpointSecrets::new(webhook_secret.clone()),
            domain: site.domain().to_owned(),
        };
        match self.store().exchange(exchange, audited, now).await? {
            Exchanged::Done {
                connection,
                cancelled,
            } => {
                let environment = connection.environment.as_str();
                count_ended(DeliveryStatus::Cancelled, environment, cancelled);
                Ok(Connected {
                    connection,
                    api_key,
                    scopes: code.scopes.clone(),
                    webhook_url,
                    webhook_secret,
                    domain: site.domain().to_owned(),
                })
            }
            Exchanged::Dead => Err(ConnectError::CodeRefused),
            Exchanged::NotLiveApproved => Err(ConnectError::NotLiveApproved),
            Exchanged::EndpointTaken(id) => Err(ConnectError::EndpointTaken(id)),
            Exchanged::TooManyEndpoints => Err(ConnectError::TooManyEndpoints),
            Exchanged::TooManyDomains => Err(ConnectError::TooManyDomains),
        }
    }
}

/// Generates the key of a shop, with its stored record.
fn draw_key(code: &ConnectCode, now: Time) -> Result<(ApiKey, Secret), getrandom::Error> {
    let shown = TokenKind::Merchant(code.environment).generate(getrandom::fill)?;
    let id = KeyId::from_bytes(crate::random()?);
    let owner = KeyOwner::Merchant(code.merchant);
    let key = ApiKey::new(
        id,
        &shown,
        owner,
        code.environment,
        code.scopes.clone(),
        now,
    );
    Ok((key, shown))
}

/// The audit log line. The store adds the previous state.
fn audited(code: &ConnectCode, key: &ApiKey, endpoint: &Endpoint, site: &SiteUrl) -> Audited {
    let after = json!({
        "environment": code.environment,
        "site_origin": code.origin,
        "scopes": code.scopes,
        "connect_code_id": code.id.to_string(),
        "key_id": key.id.to_string(),
        "webhook_endpoint_id": endpoint.id.to_string(),
        "webhook_url": endpoint.url,
        "verified_domain": site.domain(),
    });
    Audited {
        actor: code.origin.to_string(),
        reason: Some(format!("connect code {}", code.id)),
        after: Some(after.to_string()),
        ..Audited::of_system("connect.exchange", format!("merchant/{}", code.merchant))
    }
}
