//! Merchants, their policies, keys, domains and codes.
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
            .about("Actor and reason are needed for one that is approved for live.")
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
                "A JSON merge patch: what is absent stays. `live_approved` needs the role `admin`; it and `policy` need actor and reason.",
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
        Call::delete("/keys/{id}", "revokeKey", "Revokes a key at once.").attributed(),
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

/// A new merchant.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NewMerchant {
    name: Name,
    /// False if absent: no live payment, key or code.
    live_approved: Option<bool>,
    fx_rates: Option<RatesPatch>,
    /// Absent fields have their defaults.
    policy: Option<PolicyPatch>,
    /// Absent fields have their defaults.
    brand: Option<BrandPatch>,
}

/// Changes of a merchant.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct MerchantPatch {
    #[schema(nullable = false)]
    name: Option<Name>,
    /// Needs the role `admin`.
    #[schema(nullable = false)]
    live_approved: Option<bool>,
    /// `null` removes all of them. A rate that is more than 20 % off the one before, or off the European
    /// Central Bank's if there was none, is refused without `force`.
    fx_rates: Option<RatesPatch>,
    /// Accepts rates that jump. Needs actor and reason.
    force: Option<bool>,
    /// `null` resets the whole policy.
    policy: Option<PolicyPatch>,
    /// `null` resets the whole brand.
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
    /// Domains to which payers may be sent back.
    domains: Vec<VerifiedDomain>,
    created_at: Instant,
}

/// Current conversion rates of a merchant's payments.
#[derive(ToSchema)]
struct MerchantRates {
    rates: Vec<MerchantRate>,
}

/// Why methods are available or not.
#[derive(ToSchema)]
struct Explanation {
    /// The methods of the interface, and those with modules.
    methods: Vec<ExplainedMethod>,
}

/// Whether a method is available, and why.
#[derive(ToSchema)]
struct ExplainedMethod {
    method_id: PaymentMethod,
    /// Whether a listing shows the method.
    offered: bool,
    /// A sentence for operators.
    reason: String,
    /// The accounts of the environment; empty if the payment is refused regardless of its method.
    accounts: Vec<ExplainedAccount>,
}

/// Whether an account could take the payment, and why.
#[derive(ToSchema)]
struct ExplainedAccount {
    provider_id: ProviderId,
    eligible: bool,
    /// The text of the method's module if it was asked about the account.
    reason: String,
}

/// Conversion rate of payments in one currency.
#[derive(ToSchema)]
struct MerchantRate {
    currency: Currency,
    /// Null if no rate is known: a payment in the currency is refused.
    #[schema(required)]
    rate: Option<Rate>,
    /// Source of the rate; null for US dollars, and if no rate is known.
    #[schema(required)]
    source: Option<RateSource>,
    /// Time at which it was set, or the date that its source states.
    #[schema(required)]
    set_at: Option<Instant>,
    /// Age of the rate.
    #[schema(required)]
    age_seconds: Option<Age>,
    /// False if there is no rate, or if it is older than the policy's `fx_max_age_seconds`: a payment in the
    /// currency is refused.
    usable: bool,
}

/// The methods that a merchant offers, their accounts, and limits of amounts.
#[derive(ToSchema)]
struct Policy {
    /// Policies by method. An absent method is enabled in test and disabled in live.
    methods: BTreeMap<String, MethodPolicy>,
    /// Whether a start may name its `provider_id`.
    provider_choice: bool,
    /// Maximum amount of a payment in US dollars; null is no limit.
    #[schema(required)]
    max_usd: Option<LimitAmount>,
    /// Amount in US dollars above which a person reviews the payment before the money is captured; null is
    /// never.
    #[schema(required)]
    review_over_usd: Option<LimitAmount>,
    /// Maximum age of exchange rates; null is no limit of the merchant's own.
    #[schema(required)]
    fx_max_age_seconds: Option<RateAge>,
    /// Margin deducted from a source's rates; null is none.
    #[schema(required)]
    fx_margin: Option<Margin>,
    /// Whether the platform's fee is credited in proportion to refunds.
    platform_fee_refundable: bool,
    rate_limit: RateLimit,
}

/// A merchant's policy for a method.
#[derive(ToSchema)]
struct MethodPolicy {
    enabled: bool,
    /// The accounts that may be used; null is all accounts.
    #[schema(required)]
    providers: Option<Vec<ProviderId>>,
    /// Minimum in US dollars.
    #[schema(required)]
    min: Option<LimitAmount>,
    /// Maximum in US dollars.
    #[schema(required)]
    max: Option<LimitAmount>,
}

/// Rate limit of each key of a merchant. The value in effect is shown: the gateway's if the merchant has none.
#[derive(ToSchema)]
struct RateLimit {
    /// Sustained rate.
    per_second: Requests,
    /// Maximum burst.
    burst: Requests,
}

/// Appearance of a merchant's pages.
#[derive(ToSchema)]
struct Brand {
    /// Background of name and amount; null is the gateway's own.
    #[schema(required)]
    colour: Option<Colour>,
    /// SHA-256 of the logo's file as payers get it; null if there is no logo.
    #[schema(required)]
    logo: Option<Digest>,
    /// Whether each method's row names its provider. The other pages always name it.
    show_provider: bool,
    /// An e-mail address or https URL at which payers can ask about their order; null if there is none.
    #[schema(required)]
    support: Option<String>,
}

/// A brand as a merge patch: absent fields are unchanged, `null` resets.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct BrandPatch {
    /// Background of name and amount. Text on it is black or white, whichever is more readable.
    colour: Option<Colour>,
    /// A PNG file in base64 with at most 320 pixels per side. The gateway encodes its pixels again, in at most
    /// 8,192 bytes. The background is white.
    logo: Option<String>,
    /// Whether each method's row names its provider; `null` is false.
    show_provider: Option<bool>,
    /// An e-mail address, or an https URL of a named host.
    support: Option<String>,
}

/// A policy as a merge patch: absent fields are unchanged, `null` resets.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyPatch {
    methods: Option<MethodsPatch>,
    /// Whether a start may name its `provider_id`; false if never set.
    provider_choice: Option<bool>,
    /// Maximum amount of a payment in US dollars, more than zero.
    max_usd: Option<InvoiceAmount>,
    /// Amount in US dollars above which a person reviews the payment before the money is captured.
    review_over_usd: Option<LimitAmount>,
    /// Maximum age of exchange rates.
    fx_max_age_seconds: Option<RateAge>,
    /// Margin deducted from the rates of a source, never from the merchant's own.
    fx_margin: Option<Margin>,
    /// Whether the platform's fee is credited in proportion to refunds; false if never set.
    platform_fee_refundable: Option<bool>,
    /// `null`: the gateway's own.
    rate_limit: Option<RateLimitPatch>,
}

/// Changes of methods' policies.
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

/// Changes of a method's policy.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct MethodPolicyPatch {
    /// True if never set.
    #[schema(nullable = false)]
    enabled: Option<bool>,
    /// Configured accounts, without duplicates; `null` is all accounts.
    providers: Option<Vec<ProviderId>>,
    /// Minimum in US dollars, not above `max`.
    min: Option<LimitAmount>,
    /// Maximum in US dollars.
    max: Option<LimitAmount>,
}

/// Changes of a rate limit.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct RateLimitPatch {
    /// Sustained rate.
    per_second: Option<Requests>,
    /// Maximum burst.
    burst: Option<Requests>,
}

/// A new key of a merchant.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NewMerchantKey {
    environment: Environment,
    /// Without duplicates; creating and reading payments if absent.
    #[schema(min_items = 1)]
    scopes: Option<Vec<MerchantScope>>,
    /// A time in the future; if absent, the key does not expire.
    expires_at: Option<Instant>,
}

/// A new key with its secret.
#[derive(ToSchema)]
pub(super) struct IssuedKey {
    key_id: KeyId,
    /// The secret: shown only this time, and stored as a hash.
    #[schema(example = "kp_test_…")]
    key: String,
}

/// Options for the replaced key.
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
    /// The key's last characters.
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

/// A new verified domain.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NewDomain {
    domain: Domain,
    /// Whether subdomains are included; false if absent.
    include_subdomains: Option<bool>,
}

/// A verified domain: lower case, in ASCII.
#[derive(ToSchema)]
struct VerifiedDomain {
    domain: Domain,
    include_subdomains: bool,
}

/// A new connect code.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NewConnectCode {
    environment: Environment,
    site_url: SiteUrl,
    /// Scopes of the key that the shop gets, without duplicates; creating and reading payments if absent.
    #[schema(min_items = 1)]
    scopes: Option<Vec<MerchantScope>>,
}

/// A new connect code with its secret.
#[derive(ToSchema)]
struct IssuedConnectCode {
    connect_code_id: ConnectCodeId,
    /// The secret: shown only this time, valid for one exchange.
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

/// A new consent code with its secret.
#[derive(ToSchema)]
struct ConsentCode {
    /// The secret: shown only this time, valid for one invitation.
    #[schema(example = "km_…")]
    code: String,
    expires_at: Instant,
}
