//! Operations that a reseller may perform for a merchant, and their end.

use std::time::Duration;

use kassette_domain::attempt::AttemptState;
use kassette_domain::delegation::{DelegationDecision, DelegationStatus};
use kassette_domain::id::{KeyId, MerchantId, PaymentId, ResellerId};
use kassette_domain::invitation::{BusinessName, InvitationRequest};
use kassette_domain::key::{ApiKey, Environment, KeyOwner, Scope, TokenHash, TokenKind};
use kassette_domain::method::MethodId;
use kassette_domain::order::{ClientRef, Email};
use kassette_domain::payment::{CheckoutMode, Origin, Payment, Request, Status};
use kassette_domain::reseller::ResellerNotAllowed;
use kassette_domain::secret::Secret;
use kassette_gateway::auth::{AuthError, ResellerCaller, rolled_out};
use kassette_gateway::clock::Clock as _;
use kassette_gateway::create::{CreateError, CreateOutcome};
use kassette_gateway::reseller::{InviteError, InviteOutcome, ResellerError, ResellerStart};
use kassette_gateway::start::StartError;
use kassette_store::{Answered, Paging, PaymentFilter};

use crate::modules::Script;
use crate::world::{World, audited, by_page};

impl World {
    async fn reseller(&self) -> ResellerId {
        let made = self
            .store
            .create_reseller("Agency".into(), audited(), self.clock.now());
        made.await.unwrap().id
    }

    /// A reseller's key, as issued.
    async fn key_of(&self, reseller: ResellerId, environment: Environment) -> Secret {
        let shown = TokenKind::Reseller(environment)
            .generate(getrandom::fill)
            .unwrap();
        let key = ApiKey {
            id: KeyId::from_bytes(*PaymentId::made_at(self.clock.now(), random()).as_bytes()),
            hash: TokenHash::hash(shown.expose()),
            owner: KeyOwner::Reseller(reseller),
            environment,
            scopes: Scope::RESELLER.to_vec(),
            hint: "abcd".into(),
            created_at: self.clock.now(),
            expires_at: None,
            revoked_at: None,
            last_used_at: None,
        };
        let issued = self.store.issue_key(key, audited(), self.clock.now()).await;
        assert!(matches!(issued, Ok(kassette_store::KeyIssued::Done(_))));
        shown
    }

    async fn caller(&self, reseller: ResellerId, environment: Environment) -> ResellerCaller {
        let key = self.key_of(reseller, environment).await;
        self.gateway.reseller_caller(key.expose()).await.unwrap()
    }

    pub(crate) async fn delegate(&self, reseller: ResellerId, authorized: bool) {
        let decision = match authorized {
            true => DelegationDecision::AUTHORIZE,
            false => DelegationDecision::Revoke,
        };
        let now = self.clock.now();
        let set = self
            .store
            .set_delegation(reseller, self.merchant.id, decision, audited(), now);
        set.await.unwrap().unwrap();
    }

    /// An authorized reseller, with its test key.
    pub(crate) async fn authorized(&self) -> ResellerCaller {
        let reseller = self.reseller().await;
        self.delegate(reseller, true).await;
        self.caller(reseller, Environment::Test).await
    }

    fn resold(&self, caller: &ResellerCaller, name: &str, mode: CheckoutMode) -> Request {
        Request {
            origin: Origin::Reseller {
                reseller: caller.reseller.id,
                client_ref: ClientRef::parse(name).unwrap(),
            },
            environment: caller.key.environment,
            ..self.request(name, mode)
        }
    }

    pub(crate) async fn resell(
        &self,
        caller: &ResellerCaller,
        name: &str,
        mode: CheckoutMode,
    ) -> Payment {
        let request = self.resold(caller, name, mode);
        match self.gateway.reseller_create(caller, request).await.unwrap() {
            CreateOutcome::Created(payment) => payment,
            CreateOutcome::Replayed(_) => panic!("it was there before"),
        }
    }
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}

pub(crate) fn ideal(payment: PaymentId) -> ResellerStart {
    ResellerStart {
        payment,
        method: MethodId::Ideal,
        provider: None,
    }
}

fn all() -> Paging {
    Paging {
        limit: 100,
        cursor: None,
    }
}

fn any() -> PaymentFilter {
    PaymentFilter::default()
}

fn invitation(caller: &ResellerCaller, client_ref: &str) -> InvitationRequest {
    InvitationRequest {
        reseller: caller.reseller.id,
        client_ref: ClientRef::parse(client_ref).unwrap(),
        email: Email::parse("owner@shop.example").unwrap(),
        business_name: BusinessName::parse("Shop Seven").unwrap(),
    }
}

#[tokio::test]
async fn keys_of_merchants_and_resellers_open_only_their_own() {
    let world = World::new().await;
    let reseller = world.reseller().await;
    let key = world.key_of(reseller, Environment::Live).await;
    let caller = world.gateway.reseller_caller(key.expose()).await.unwrap();
    assert!(!rolled_out(&caller), "off until an operator switches it");
    let refused = world.gateway.merchant_caller(key.expose()).await;
    assert!(matches!(refused, Err(AuthError::Refused)));
    let now = world.clock.now();
    let switched = world.store.set_live_rollout(reseller, true, audited(), now);
    switched.await.unwrap().unwrap();
    let caller = world.gateway.reseller_caller(key.expose()).await.unwrap();
    assert!(rolled_out(&caller), "it holds for the next request");
    let id = caller.key.id;
    world.store.revoke_key(id, audited(), now).await.unwrap();
    let refused = world.gateway.reseller_caller(key.expose()).await;
    assert!(matches!(refused, Err(AuthError::Refused)));
}

#[tokio::test]
async fn an_invitation_is_accepted_on_its_page_and_then_payments_are_made() {
    let world = World::new().await;
    let reseller = world.reseller().await;
    let caller = world.caller(reseller, Environment::Test).await;
    let gateway = &world.gateway;
    let asked = gateway.invite(&caller, invitation(&caller, "ref")).await;
    let InviteOutcome::Invited(standing) = asked.unwrap() else {
        panic!("it is not new");
    };
    assert_eq!(standing.status, DelegationStatus::Invited);
    let url = gateway.invitation_url(&standing.invitation);
    let token = url
        .strip_prefix("https://pay.shop.example/invitation/")
        .unwrap();
    assert_eq!(token.len(), 43);

    let request = world.resold(&caller, "a", CheckoutMode::Hosted);
    let refused = gateway.reseller_create(&caller, request).await;
    assert!(matches!(
        refused,
        Err(CreateError::Barred(ResellerNotAllowed::NotAuthorized))
    ));
    let listed = async || {
        let paging = Paging {
            limit: 1000,
            cursor: None,
        };
        let page = gateway.reseller_merchants(&caller, paging).await.unwrap();
        assert_eq!(page.next, None);
        page.items
    };
    let merchants = listed().await;
    assert_eq!((merchants.len(), merchants[0].merchant), (1, None));

    let code = gateway
        .issue_consent_code(world.merchant.id, audited())
        .await
        .unwrap();
    let accepted = gateway.accept_invitation(token, code.code).await.unwrap();
    assert!(matches!(accepted, Answered::Accepted(_)), "{accepted:?}");
    let view = gateway.invitation(token).await.unwrap().unwrap();
    assert_eq!(view.standing.status, DelegationStatus::Authorized);
    let merchants = listed().await;
    assert_eq!(merchants[0].merchant, Some(world.merchant.id));
    world.resell(&caller, "a", CheckoutMode::Hosted).await;

    // The same request returns the invitation in its current state; another one differs.
    let again = gateway
        .invite(&caller, invitation(&caller, "ref"))
        .await
        .unwrap();
    match again {
        InviteOutcome::Replayed(standing) => {
            assert_eq!(standing.status, DelegationStatus::Authorized);
            assert_eq!(gateway.invitation_url(&standing.invitation), url);
        }
        InviteOutcome::Invited(_) => panic!("it was made twice"),
    }
    let mut other = invitation(&caller, "ref");
    other.email = Email::parse("other@shop.example").unwrap();
    let differs = gateway.invite(&caller, other).await;
    assert!(matches!(
        differs,
        Err(InviteError::Differs { field: "email" })
    ));
}

#[tokio::test]
async fn the_merchant_owns_the_payment_and_the_reseller_starts_it() {
    let world = World::new().await;
    let caller = world.authorized().await;
    let payment = world.resell(&caller, "a", CheckoutMode::Direct).await;
    let (id, gateway) = (payment.id, &world.gateway);
    let of_merchant = gateway
        .payment_of(world.merchant.id, Environment::Test, id)
        .await;
    assert_eq!(of_merchant.unwrap().unwrap().id, id);
    let started = gateway.reseller_start(&caller, ideal(id)).await.unwrap();
    assert_eq!(started.aggregate.payment.status, Status::Pending);
    let again = gateway.reseller_start(&caller, ideal(id)).await.unwrap();
    assert_eq!(again.redirect_url, started.redirect_url);
    let read = gateway.reseller_payment(&caller, id).await.unwrap();
    assert_eq!(read.status, Status::Pending);
    let listed = gateway
        .reseller_payments(&caller, world.merchant.id, &any(), all())
        .await;
    assert_eq!(listed.unwrap().items.len(), 1);
    let hosted = world.resell(&caller, "b", CheckoutMode::Hosted).await;
    let refused = gateway.reseller_start(&caller, ideal(hosted.id)).await;
    assert!(
        matches!(refused, Err(StartError::Conflict(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_reference_is_replayed_or_differs() {
    let world = World::new().await;
    let caller = world.authorized().await;
    let payment = world.resell(&caller, "a", CheckoutMode::Hosted).await;
    let request = world.resold(&caller, "a", CheckoutMode::Hosted);
    match world
        .gateway
        .reseller_create(&caller, request.clone())
        .await
        .unwrap()
    {
        CreateOutcome::Replayed(replayed) => assert_eq!(replayed.id, payment.id),
        CreateOutcome::Created(_) => panic!("a second payment"),
    }
    let mut other = request;
    other.due.amount = kassette_domain::money::Minor(1);
    let differs = world.gateway.reseller_create(&caller, other).await;
    let differs = differs.unwrap_err();
    assert!(differs.to_string().contains("client_ref"), "{differs}");
    assert!(matches!(
        differs,
        CreateError::ClientRefDiffers { field: "amount" }
    ));
}

#[tokio::test]
async fn another_resellers_and_another_environments_payments_are_not_found() {
    let world = World::new().await;
    let caller = world.authorized().await;
    let other = world.authorized().await;
    let reseller = caller.reseller.id;
    let now = world.clock.now();
    world
        .store
        .set_live_rollout(reseller, true, audited(), now)
        .await
        .unwrap();
    let live = world.caller(reseller, Environment::Live).await;
    let payment = world.resell(&caller, "a", CheckoutMode::Direct).await;
    let of_merchant = world.direct().await;
    for (who, id) in [
        (&other, payment.id),
        (&live, payment.id),
        (&caller, of_merchant.id),
        (&caller, PaymentId::from_bytes([9; 16])),
    ] {
        let read = world.gateway.reseller_payment(who, id).await;
        assert!(matches!(read, Err(ResellerError::NotFound)), "{read:?}");
        let started = world.gateway.reseller_start(who, ideal(id)).await;
        assert!(matches!(started, Err(StartError::NotFound)), "{started:?}");
    }
    for who in [&other, &live] {
        let listed = world
            .gateway
            .reseller_payments(who, world.merchant.id, &any(), all())
            .await;
        assert_eq!(listed.unwrap().items, []);
    }
    let nobodys = world
        .gateway
        .reseller_payments(&caller, MerchantId(77), &any(), all())
        .await;
    assert!(matches!(
        nobodys,
        Err(ResellerError::Barred(ResellerNotAllowed::NotAuthorized))
    ));
}

/// All payments that match a filter, and the number of pages.
async fn chosen(
    world: &World,
    caller: &ResellerCaller,
    filter: &PaymentFilter,
    limit: usize,
) -> (Vec<PaymentId>, usize) {
    let (mut found, mut pages) = (Vec::new(), 0);
    let mut cursor = None;
    loop {
        let paging = Paging { limit, cursor };
        let merchant = world.merchant.id;
        let page = world
            .gateway
            .reseller_payments(caller, merchant, filter, paging);
        let page = page.await.unwrap();
        assert!(page.items.len() <= limit, "{} of {limit}", page.items.len());
        found.extend(page.items.iter().map(|payment| payment.id));
        pages += 1;
        cursor = page.next;
        if cursor.is_none() {
            return (found, pages);
        }
    }
}

#[tokio::test]
async fn a_reseller_s_list_is_chosen_by_order_status_and_time() {
    let world = World::new().await;
    let caller = world.authorized().await;
    let mut made = Vec::new();
    let mut at = Vec::new();
    for name in ["a", "b", "c", "d"] {
        at.push(world.clock.now());
        made.push(world.resell(&caller, name, CheckoutMode::Direct).await.id);
        world.clock.advance(Duration::from_secs(60));
    }
    let start = world.gateway.reseller_start(&caller, ideal(made[2]));
    start.await.unwrap();
    let times = |since: Option<usize>, until: Option<usize>| PaymentFilter {
        since: since.map(|nth| at[nth]),
        until: until.map(|nth| at[nth]),
        ..any()
    };
    let of = |status| PaymentFilter {
        status: Some(status),
        ..any()
    };
    let order = |order: &str| PaymentFilter {
        order_id: Some(order.into()),
        ..any()
    };
    for (filter, which) in [
        (order("b"), vec![1]),
        (order("e"), vec![]),
        (of(Status::Pending), vec![2]),
        (of(Status::Created), vec![3, 1, 0]),
        (times(Some(1), None), vec![3, 2, 1]),
        (times(None, Some(1)), vec![0]),
        (times(Some(1), Some(3)), vec![2, 1]),
        (any(), vec![3, 2, 1, 0]),
    ] {
        let wanted: Vec<_> = which.into_iter().map(|nth: usize| made[nth]).collect();
        for limit in [1, 2, 100] {
            let (found, _) = chosen(&world, &caller, &filter, limit).await;
            assert_eq!(found, wanted, "{filter:?}, {limit} at once");
        }
    }
}

#[tokio::test]
async fn a_page_of_chosen_payments_is_full_or_reads_on_and_skips_none() {
    let world = World::new().await;
    let caller = world.authorized().await;
    // More than one read returns, the oldest with another status.
    let oldest = world.resell(&caller, "oldest", CheckoutMode::Direct).await;
    let start = world.gateway.reseller_start(&caller, ideal(oldest.id));
    start.await.unwrap();
    let mut made = Vec::new();
    for each in 0..120 {
        let name = format!("order-{each}");
        made.push(world.resell(&caller, &name, CheckoutMode::Hosted).await.id);
        world.clock.advance(Duration::from_millis(1));
    }
    made.reverse();
    let of = |status| PaymentFilter {
        status: Some(status),
        ..any()
    };
    let pending = chosen(&world, &caller, &of(Status::Pending), 1).await;
    assert_eq!(pending, (vec![oldest.id], 1));
    // The last page also reads the oldest payment, which has another status.
    let (found, pages) = chosen(&world, &caller, &of(Status::Created), 7).await;
    assert_eq!((found, pages), (made, 18));
}

#[tokio::test]
async fn a_revocation_holds_at_once_on_the_page_too() {
    let world = World::new().await;
    let caller = world.authorized().await;
    let direct = world.resell(&caller, "direct", CheckoutMode::Direct).await;
    let running = world.resell(&caller, "running", CheckoutMode::Hosted).await;
    let waiting = world.resell(&caller, "waiting", CheckoutMode::Hosted).await;
    let gateway = &world.gateway;
    gateway
        .start(by_page(&running, MethodId::Ideal))
        .await
        .unwrap();
    let page = gateway
        .checkout(waiting.token.expose())
        .await
        .unwrap()
        .unwrap();
    assert!(page.can_choose);
    world.delegate(caller.reseller.id, false).await;

    let request = world.resold(&caller, "new", CheckoutMode::Hosted);
    let created = gateway.reseller_create(&caller, request).await;
    assert!(
        matches!(created, Err(CreateError::Barred(_))),
        "{created:?}"
    );
    let replay = world.resold(&caller, "waiting", CheckoutMode::Hosted);
    let replayed = gateway.reseller_create(&caller, replay).await;
    assert!(matches!(replayed, Err(CreateError::Barred(_))));
    let started = gateway.reseller_start(&caller, ideal(direct.id)).await;
    assert!(matches!(started, Err(StartError::Barred(_))), "{started:?}");
    let read = gateway.reseller_payment(&caller, direct.id).await;
    assert!(matches!(read, Err(ResellerError::Barred(_))), "{read:?}");
    let listed = gateway
        .reseller_payments(&caller, world.merchant.id, &any(), all())
        .await;
    assert!(matches!(listed, Err(ResellerError::Barred(_))));

    let page = gateway
        .checkout(waiting.token.expose())
        .await
        .unwrap()
        .unwrap();
    assert!(!page.can_choose && page.offers.is_empty());
    let chosen = gateway.start(by_page(&waiting, MethodId::Ideal)).await;
    assert!(matches!(chosen, Err(StartError::Barred(_))), "{chosen:?}");
    // Open attempts are shown as before.
    let page = gateway
        .checkout(running.token.expose())
        .await
        .unwrap()
        .unwrap();
    assert!(page.aggregate.open_attempt().is_some());
    let again = gateway.start(by_page(&running, MethodId::Ideal)).await;
    assert!(again.is_ok(), "{again:?}");
    // The merchant can still read all of them.
    let of_merchant = gateway.payment_of(world.merchant.id, Environment::Test, direct.id);
    assert!(of_merchant.await.unwrap().is_some());
}

#[tokio::test]
async fn no_start_is_repeated_for_a_reseller_whose_work_was_revoked() {
    let world = World::new().await;
    let caller = world.authorized().await;
    let payment = world.resell(&caller, "lost", CheckoutMode::Hosted).await;
    world.vendor.script("alpha", vec![Script::LostBefore; 3]);
    world.vendor.be_silent(true);
    let lost = world
        .gateway
        .start(by_page(&payment, MethodId::Ideal))
        .await;
    assert!(
        matches!(lost, Err(StartError::Unsettled { .. })),
        "{lost:?}"
    );
    world.delegate(caller.reseller.id, false).await;
    let before = world.vendor.starts().len();
    for method in [MethodId::Ideal, MethodId::Paypal] {
        let again = world.gateway.start(by_page(&payment, method)).await;
        assert!(matches!(again, Err(StartError::Barred(_))), "{again:?}");
    }
    for _ in 0..45 {
        world.later(1);
        world.gateway.do_what_is_due().await.unwrap();
    }
    assert_eq!(world.vendor.starts().len(), before);
    let aggregate = world.aggregate(payment.id).await;
    let open = aggregate.open_attempt().unwrap();
    assert_eq!(open.state(), AttemptState::Unknown);
}
