//! Resellers and their delegations.
#![expect(dead_code, reason = "only the schemas are used")]

use kassette_domain::operator::Role;
use utoipa::ToSchema;

use super::call::Call;
use super::formats::*;
use super::merchants::{IssuedKey, Key};

pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::post("/resellers", "createReseller", "Makes a reseller.")
            .body::<NewReseller>()
            .created::<Reseller>("The reseller."),
        Call::get(
            "/resellers",
            "listResellers",
            "Lists resellers, the newest first.",
        )
        .list::<Reseller>("resellers"),
        Call::get("/resellers/{id}", "readReseller", "Shows a reseller.")
            .ok::<Reseller>("The reseller."),
        Call::post(
            "/resellers/{id}/keys",
            "createResellerKey",
            "Makes an API key of a reseller.",
        )
        .body::<NewResellerKey>()
        .created::<IssuedKey>("The key, shown this once."),
        Call::get(
            "/resellers/{id}/keys",
            "listResellerKeys",
            "Lists a reseller's keys, the newest first.",
        )
        .list::<Key>("keys"),
        Call::put(
            "/resellers/{id}/live-rollout",
            "switchLiveRollout",
            "Says whether a reseller may make live payments.",
        )
        .role(Role::Admin)
        .attributed()
        .body::<Rollout>()
        .ok::<Reseller>("The reseller as it is now."),
        Call::get(
            "/resellers/{id}/delegations",
            "listDelegations",
            "Lists merchants that a reseller invited or acts for.",
        )
        .list::<ListedDelegation>("delegations"),
        Call::put(
            "/resellers/{id}/delegations/{merchant_id}",
            "setDelegation",
            "Says whether a reseller may act for a merchant.",
        )
        .attributed()
        .body::<Decision>()
        .ok::<Delegation>("What holds now."),
    ]
}

/// A new reseller.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NewReseller {
    name: Name,
}

/// A reseller.
#[derive(ToSchema)]
struct Reseller {
    reseller_id: ResellerId,
    name: Name,
    /// Whether it may create live payments.
    live_rollout: bool,
    created_at: Instant,
}

/// A new key of a reseller.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NewResellerKey {
    environment: Environment,
    /// Those that begin with `reseller:`, and `account:manage`, without duplicates. If absent, all of them except
    /// `reseller:refund` and `account:manage`.
    #[schema(min_items = 1)]
    scopes: Option<Vec<Scope>>,
    /// A time in the future; if absent, the key does not expire.
    expires_at: Option<Instant>,
}

/// Whether live payments are allowed.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct Rollout {
    enabled: bool,
}

/// An operator's decision about a delegation.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DelegationDecision)]
struct Decision {
    status: Decided,
    /// Whether the reseller may refund the payments that it created. If absent, `authorized` leaves this unchanged,
    /// and it is false at first; `revoked` always sets it to false.
    refunds: Option<bool>,
}

/// The delegation of a merchant to a reseller.
#[derive(ToSchema)]
struct Delegation {
    reseller_id: ResellerId,
    merchant_id: MerchantId,
    status: Decided,
    authorized_at: Instant,
    #[schema(required)]
    revoked_at: Option<Instant>,
    /// Whether the reseller may refund the payments that it created.
    refunds: bool,
}

/// A merchant of a reseller, or one of its invitations.
#[derive(ToSchema)]
struct ListedDelegation {
    /// Null while no merchant has accepted the invitation.
    #[schema(required)]
    merchant_id: Option<MerchantId>,
    /// The name that the reseller uses, or the merchant's own.
    business_name: String,
    status: DelegationStatus,
    #[schema(required)]
    authorized_at: Option<Instant>,
    #[schema(required)]
    client_ref: Option<ClientRef>,
    #[schema(required)]
    invitation_id: Option<InvitationId>,
    /// Whether the reseller may refund the payments that it created.
    refunds: bool,
    created_at: Instant,
}
