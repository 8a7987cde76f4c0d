//! Merchants, their policy, and what they are given: keys, domains, codes.
#![expect(dead_code, reason = "only the schemas are used")]

use std::collections::BTreeMap;

use kassette_domain::merchant::Merchant as DomainMerchant;
use kassette_domain::operator::Role;
use utoipa::openapi::schema::ObjectBuilder;
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::call::Call;
use super::formats::*;

pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::post("/merchants", "createMerchant", "Makes a merchant.")
            .role(Role::Admin)
            .body::<NewMerchant>()
            .created::<Merchant>("The merchant."),
        Call::get(
            "/merchants",
            "listMerchants",
            "Lists merchants, the newest first.",
        )
        .list::<Merchant>("merchants"),
        Call::get("/merchants/{id}", "readMerchant", "Shows a merchant.")
            .ok::<Merchant>("The merchant."),
        Call::patch("/merchants/{id}", "changeMerchant", "Changes a merchant.")
            .about(
                "A JSON merge patch: what is absent stays. `live_approved` needs the role `admin`.",
            )
            .body::<MerchantPatch>()
            .ok::<Merchant>("The merchant as it is now.")
            .conflict("Others keep changing it."),
        Call::get(
            "/merchants/{id}/rates",
            "listMerchantRates",
            "Lists the exchange rates that a merchant's payments would be converted with now.",
        )
        .about(
            "One of each currency: the merchant's own, else a source's less the merchant's margin. One that \
             is too old is shown and not used.",
        )
        .ok::<MerchantRates>("The rates."),
        Call::get(
            "/explain",
            "explainMethods",
            "Says why each payment method is offered to a merchant's payers now, or is not.",
        )
        .about(
            "The gateway asks what a listing asks, without the payer's country and e-mail address, and names \
             what a listing leaves out.",
        )
        .required_query::<MerchantId>("merchant_id", "Whose payment.")
        .required_query::<Environment>("environment", "In which environment.")
        .query::<InvoiceAmount>("amount", "How much; without it limits are not applied.")
        .query::<Currency>("currency", "Of what; `USD` where it is absent.")
        .ok::<Explanation>("Every method.")
        .missing("There is no such merchant."),
        Call::post(
            "/merchants/{id}/keys",
            "createMerchantKey",
            "Makes an API key of a merchant.",
        )
        .body::<NewMerchantKey>()
        .created::<IssuedKey>("The key, shown this once.")
        .conflict("A live key of a merchant that is not approved for live."),
        Call::get(
            "/merchants/{id}/keys",
            "listMerchantKeys",
            "Lists a merchant's keys, the newest first.",
        )
        .list::<Key>("keys"),
        Call::post(
            "/keys/{id}/rotate",
            "rotateKey",
            "Replaces a key of a merchant or reseller by a new one.",
        )
        .about("The new one has its environment, scopes and expiry.")
        .body::<Rotation>()
        .created::<IssuedKey>("The new key, shown this once.")
        .conflict("The key is revoked or expired."),
        Call::delete("/keys/{id}", "revokeKey", "Revokes a key at once."),
        Call::post(
            "/merchants/{id}/domains",
            "addDomain",
            "Makes a domain one of the merchant's verified ones.",
        )
        .about(&format!(
            "A merchant has at most {}, and payers are sent back to them alone.",
            DomainMerchant::MAX_DOMAINS
        ))
        .body::<NewDomain>()
        .created::<VerifiedDomain>("The domain as it is compared.")
        .conflict("It is one already, or others keep changing the merchant."),
        Call::delete(
            "/merchants/{id}/domains/{domain}",
            "removeDomain",
            "Takes a verified domain away.",
        )
        .conflict("Others keep changing the merchant."),
        Call::post(
            "/merchants/{id}/connect-codes",
            "createConnectCode",
            "Makes a code with which a shop's plugin connects.",
        )
        .body::<NewConnectCode>()
        .created::<IssuedConnectCode>("The code, shown this once.")
        .conflict("A live code of a merchant that is not approved for live."),
        Call::get(
            "/merchants/{id}/connect-codes",
            "listConnectCodes",
            "Lists a merchant's connect codes, the newest first.",
        )
        .list::<ConnectCode>("connect_codes"),
        Call::post(
            "/merchants/{id}/consent-codes",
            "createConsentCode",
            "Makes a code with which the merchant accepts a reseller's invitation.",
        )
        .created::<ConsentCode>("The code, shown this once."),
    ]
}

/// A merchant to be.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NewMerchant {
    name: Name,
    /// False where it is absent: no live payment, key or code.
    live_approved: Option<bool>,
    fx_rates: Option<RatesPatch>,
    /// What is absent of it has its default.
    policy: Option<PolicyPatch>,
    /// Likewise.
    brand: Option<BrandPatch>,
}

/// What is to change of a merchant.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct MerchantPatch {
    #[schema(nullable = false)]
    name: Option<Name>,
    /// Needs the role `admin`.
    #[schema(nullable = false)]
    live_approved: Option<bool>,
    /// `null` removes all of them.
    fx_rates: Option<RatesPatch>,
    /// `null` resets it whole.
    policy: Option<PolicyPatch>,
    /// `null` resets it whole.
    brand: Option<BrandPatch>,
}

/// A merchant.
#[derive(ToSchema)]
struct Merchant {
    merchant_id: MerchantId,
    name: Name,
    /// Whether it may have live payments.
    live_approved: bool,
    fx_rates: Rates,
    policy: Policy,
    brand: Brand,
    /// Where payers may be sent back to.
    domains: Vec<VerifiedDomain>,
    created_at: Instant,
}

/// What a merchant's payments would be converted with now.
#[derive(ToSchema)]
struct MerchantRates {
    rates: Vec<MerchantRate>,
}

/// Why methods are offered, or are not.
#[derive(ToSchema)]
struct Explanation {
    /// Those that the interface names, and those that there are modules for.
    methods: Vec<ExplainedMethod>,
}

/// Whether a method is offered, and why.
#[derive(ToSchema)]
struct ExplainedMethod {
    method_id: PaymentMethod,
    /// Whether a listing shows it.
    offered: bool,
    /// A sentence for operators.
    reason: String,
    /// The accounts of the environment; none where the payment is refused whatever its method.
    accounts: Vec<ExplainedAccount>,
}

/// Whether an account could take the payment, and why.
#[derive(ToSchema)]
struct ExplainedAccount {
    provider_id: ProviderId,
    eligible: bool,
    /// The words of the method's module where it was asked about the account.
    reason: String,
}

/// What payments in one currency would be converted with.
#[derive(ToSchema)]
struct MerchantRate {
    currency: Currency,
    /// Null where none is known: a payment in the currency is refused.
    #[schema(required)]
    rate: Option<Rate>,
    /// Whose it is; null for US dollars, and where none is known.
    #[schema(required)]
    source: Option<RateSource>,
    /// When it was set, or of when its source says it is.
    #[schema(required)]
    set_at: Option<Instant>,
    /// How long ago that was.
    #[schema(required)]
    age_seconds: Option<Age>,
    /// False where there is none, or it is older than the policy's `fx_max_age_seconds`: a payment in the
    /// currency is refused.
    usable: bool,
}

/// Which methods a merchant offers, through which accounts, and up to which amounts.
#[derive(ToSchema)]
struct Policy {
    /// By method. One that is absent is enabled in test and disabled in live.
    methods: BTreeMap<String, MethodPolicy>,
    /// Whether a start may name its `provider_id`.
    provider_choice: bool,
    /// Most that a payment may come to, US dollars; null is no limit.
    #[schema(required)]
    max_usd: Option<LimitAmount>,
    /// Above it a person looks before the money is taken; null is never.
    #[schema(required)]
    review_over_usd: Option<LimitAmount>,
    /// Older exchange rates are not used; null is no limit of the merchant's own.
    #[schema(required)]
    fx_max_age_seconds: Option<RateAge>,
    /// Kept back of a source's rates; null is nothing.
    #[schema(required)]
    fx_margin: Option<Margin>,
    rate_limit: RateLimit,
}

/// What a merchant's policy says of a method.
#[derive(ToSchema)]
struct MethodPolicy {
    enabled: bool,
    /// The accounts that may be used; null is all of them.
    #[schema(required)]
    providers: Option<Vec<ProviderId>>,
    /// Least US dollars.
    #[schema(required)]
    min: Option<LimitAmount>,
    /// Most US dollars.
    #[schema(required)]
    max: Option<LimitAmount>,
}

/// How many requests each key of a merchant may send. Shown as it holds, the gateway's own where the
/// merchant has none.
#[derive(ToSchema)]
struct RateLimit {
    /// In the long run.
    per_second: Requests,
    /// At once.
    burst: Requests,
}

/// How a merchant's pages look.
#[derive(ToSchema)]
struct Brand {
    /// Behind name and amount; null is the gateway's own.
    #[schema(required)]
    colour: Option<Colour>,
    /// The SHA-256 of the logo's file as payers get it; null where there is none.
    #[schema(required)]
    logo: Option<Digest>,
    /// Whether the pages name the provider.
    show_provider: bool,
}

/// A brand as a merge patch: what is absent stays, `null` resets.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct BrandPatch {
    /// Behind name and amount. Text on it is black or white, whichever is read better.
    colour: Option<Colour>,
    /// A PNG file in base64 of at most 320 pixels a side. The gateway writes the file anew from its pixels,
    /// in at most 8,192 bytes. It stands on white.
    logo: Option<String>,
    /// Whether the pages name the provider; true where nothing was said.
    show_provider: Option<bool>,
}

/// A policy as a merge patch: what is absent stays, `null` resets.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyPatch {
    methods: Option<MethodsPatch>,
    /// Whether a start may name its `provider_id`; false where nothing was said.
    provider_choice: Option<bool>,
    /// Most that a payment may come to, US dollars, more than zero.
    max_usd: Option<InvoiceAmount>,
    /// Above it, US dollars, a person looks before the money is taken.
    review_over_usd: Option<LimitAmount>,
    /// Older exchange rates are not used.
    fx_max_age_seconds: Option<RateAge>,
    /// Kept back of the rates that come from a source, never of the merchant's own.
    fx_margin: Option<Margin>,
    /// `null`: the gateway's own.
    rate_limit: Option<RateLimitPatch>,
}

/// What is to change of methods' policies.
pub(super) struct MethodsPatch;

impl PartialSchema for MethodsPatch {
    fn schema() -> RefOr<Schema> {
        let policy = Ref::from_schema_name(MethodPolicyPatch::name());
        RefOr::T(Schema::Object(
            ObjectBuilder::new()
                .description(Some(
                    "By method; `null` in the place of a policy takes it out.",
                ))
                .additional_properties(Some(or_null(policy)))
                .build(),
        ))
    }
}

impl ToSchema for MethodsPatch {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((
            MethodPolicyPatch::name().into_owned(),
            MethodPolicyPatch::schema(),
        ));
        MethodPolicyPatch::schemas(schemas);
    }
}

/// What is to change of a method's policy.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct MethodPolicyPatch {
    /// True where nothing was said.
    #[schema(nullable = false)]
    enabled: Option<bool>,
    /// Configured accounts, each once; `null` is all of them.
    providers: Option<Vec<ProviderId>>,
    /// Least US dollars, not above `max`.
    min: Option<LimitAmount>,
    /// Most US dollars.
    max: Option<LimitAmount>,
}

/// What is to change of a rate limit.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct RateLimitPatch {
    /// Requests in the long run.
    per_second: Option<Requests>,
    /// Requests at once.
    burst: Option<Requests>,
}

/// A key of a merchant to be.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NewMerchantKey {
    environment: Environment,
    /// Payments' creation and reading where it is absent; each once.
    #[schema(min_items = 1)]
    scopes: Option<Vec<MerchantScope>>,
    /// In the future; never where it is absent.
    expires_at: Option<Instant>,
}

/// A key that was just made.
#[derive(ToSchema)]
pub(super) struct IssuedKey {
    key_id: KeyId,
    /// The secret: shown this once, and kept as a hash alone.
    #[schema(example = "kp_test_…")]
    key: String,
}

/// What stays of a key that is replaced.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct Rotation {
    overlap_hours: Option<Overlap>,
}

/// A key, without the secret.
#[derive(ToSchema)]
pub(super) struct Key {
    key_id: KeyId,
    environment: Environment,
    scopes: Vec<Scope>,
    /// Its last characters.
    #[schema(example = "…x7Q2")]
    hint: String,
    created_at: Instant,
    #[schema(required)]
    expires_at: Option<Instant>,
    #[schema(required)]
    revoked_at: Option<Instant>,
    #[schema(required)]
    last_used_at: Option<Instant>,
}

/// A domain to be verified.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NewDomain {
    domain: Domain,
    /// Whether names below it count too; false where it is absent.
    include_subdomains: Option<bool>,
}

/// A verified domain: lower case, in ASCII.
#[derive(ToSchema)]
struct VerifiedDomain {
    domain: Domain,
    include_subdomains: bool,
}

/// A connect code to be.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NewConnectCode {
    environment: Environment,
    site_url: SiteUrl,
    /// Of the key that the shop gets; payments' creation and reading where it is absent, each once.
    #[schema(min_items = 1)]
    scopes: Option<Vec<MerchantScope>>,
}

/// A connect code that was just made.
#[derive(ToSchema)]
struct IssuedConnectCode {
    connect_code_id: ConnectCodeId,
    /// The secret: shown this once, good for one exchange.
    #[schema(example = "kc_…")]
    code: String,
    /// The only site that may redeem it.
    site_origin: String,
    expires_at: Instant,
}

/// A connect code, without the secret.
#[derive(ToSchema)]
struct ConnectCode {
    connect_code_id: ConnectCodeId,
    environment: Environment,
    /// The only site that may redeem it.
    site_origin: String,
    scopes: Vec<MerchantScope>,
    state: ConnectCodeState,
    created_at: Instant,
    expires_at: Instant,
    #[schema(required)]
    redeemed_at: Option<Instant>,
}

/// A consent code that was just made.
#[derive(ToSchema)]
struct ConsentCode {
    /// The secret: shown this once, good for one invitation.
    #[schema(example = "km_…")]
    code: String,
    expires_at: Instant,
}
