//! Formats of texts in the document, derived from the domain types that parse them, so that the two cannot
//! diverge.

use std::borrow::Cow;

use kassette_domain::attempt;
use kassette_domain::connect;
use kassette_domain::decline;
use kassette_domain::delegation;
use kassette_domain::event;
use kassette_domain::extras;
use kassette_domain::id;
use kassette_domain::invitation;
use kassette_domain::key;
use kassette_domain::method::MethodId;
use kassette_domain::money;
use kassette_domain::movement;
use kassette_domain::order;
use kassette_domain::payment;
use kassette_domain::provider;
use kassette_domain::refund;
use kassette_domain::site;
use kassette_domain::webhook;
use utoipa::openapi::schema::{KnownFormat, Object, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

pub(crate) fn string(description: &str, example: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
        .examples([example])
}

pub(crate) fn one_of<'t>(
    description: &str,
    example: &str,
    names: impl IntoIterator<Item = &'t str>,
) -> Object {
    string(description, example)
        .enum_values(Some(names))
        .build()
}

/// A string with a list of current values to which more may be added. It is not an enum, so that generated
/// clients accept future values.
pub(crate) fn growing<'t>(
    description: &str,
    example: &str,
    words: impl IntoIterator<Item = &'t str>,
) -> Object {
    let words: Vec<_> = words.into_iter().collect();
    let now = words.join(", ");
    let description = format!("{description} Now one of {now}; there may be more, so take any.");
    string(&description, example)
        .extensions(Some([("x-extensible-enum", words)].into_iter().collect()))
        .build()
}

/// A random id.
pub(crate) fn handle(description: &str) -> Object {
    string(description, "5b1e0c9a7d3f4e2b8a6c4d2e0f1b3a59")
        .pattern(Some("^[0-9a-f]{32}$"))
        .build()
}

/// A whole number between two bounds, both inclusive.
pub(crate) fn whole(description: &str, least: u64, most: u64) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .description(Some(description))
        .minimum(Some(least))
        .maximum(Some(most))
        .build()
}

/// Description of methods: those of the specification, and that there may be others.
fn methods() -> String {
    let specified = MethodId::SPECIFIED.map(|method| format!("`{method}`"));
    let fixed = MethodId::SPECIFIED
        .into_iter()
        .filter_map(|method| Some((method, method.fixed_currency()?)));
    let fixed: Vec<_> = fixed
        .enumerate()
        .map(|(at, (method, currency))| {
            let goes = if at == 0 { " goes" } else { "" };
            format!("`{method}`{goes} with {currency} only")
        })
        .collect();
    format!(
        "A payment method: {}, or another one for which the gateway has a module. {}; which currencies and \
         amounts the others take, their modules, the merchant's policy and the providers decide: the methods \
         list tells it of an amount and a currency.",
        specified.join(", "),
        fixed.join(", ")
    )
}

/// Defines a schema per name.
macro_rules! formats {
    ($($(#[$doc:meta])* $name:ident = $schema:expr;)+) => { $(
        $(#[$doc])*
        pub(crate) struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                RefOr::T(Schema::Object($schema))
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )+ };
}

pub(crate) use formats;

formats! {
    /// [`id::PaymentId`]
    PaymentId = string("A payment's id, made by the service.", "9f0c2b7e4d1a4f6e8b3c5d7e9f0a1b2c")
        .pattern(Some("^[0-9a-f]{32}$"))
        .build();

    /// [`id::RefundId`]
    RefundId = string("A refund's id, made by the service.", "1f7d2c9b8e4a4d6f9b3c5d7e9f0a1b2c")
        .pattern(Some("^[0-9a-f]{32}$"))
        .build();

    /// [`provider::RefundState`]
    RefundStatus = growing("`pending` until the provider has confirmed it; one that succeeded can still fail.", "pending", [provider::RefundState::Pending, provider::RefundState::Succeeded, provider::RefundState::Failed].map(provider::RefundState::as_str));

    /// [`refund::RefundOrigin`]
    RefundOrigin = growing("Who gave it back: `provider` for what was given back in the provider's own dashboard.", "merchant", [refund::RefundOrigin::Merchant, refund::RefundOrigin::Reseller, refund::RefundOrigin::Operator, refund::RefundOrigin::Provider].map(refund::RefundOrigin::as_str));

    /// A provider's page.
    ClaimUrl = string("Where the payer claims the money, for the merchant to pass on: who has it gets the money.", "https://provider.example/claim/8c1f")
        .format(Some(SchemaFormat::Custom("uri".to_owned())))
        .build();

    /// Printable text with at least one visible character.
    RefundReason = string("Why, in one line.", "The parcel came back")
        .min_length(Some(1))
        .max_length(Some(200))
        .build();

    /// A provider can receive a currency in which no payment can be created.
    ReceivedCurrency = string("The currency that was received, ISO 4217.", "EUR")
        .pattern(Some("^[A-Z]{3}$"))
        .build();

    /// [`id::AccountId`]
    ProviderId = string("A provider's id, as the methods list names it.", "sandbox-test")
        .pattern(Some("^[a-z][a-z0-9-]{0,63}$"))
        .max_length(Some(id::AccountId::MAX))
        .build();

    /// [`order::OrderId`]. Control and text-direction characters are refused, and so is a text without visible
    /// characters.
    OrderId = string("The merchant's own order reference, shown to the customer. No control or text-direction characters, and at least one character that shows.", "order-1042")
        .min_length(Some(1))
        .max_length(Some(150))
        .pattern(Some(ORDER_ID))
        .build();

    /// [`order::ClientRef`]
    ClientRef = string("The reseller's own reference, unique for each kind of thing: one invitation, one payment.", "order-1042")
        .min_length(Some(1))
        .max_length(Some(190))
        .pattern(Some("^[A-Za-z0-9._:-]+$"))
        .build();

    /// [`invitation::BusinessName`]
    BusinessName = string("What the reseller calls the merchant. No control or text-direction characters; the first and the last character show.", "Shop Seven")
        .min_length(Some(1))
        .max_length(Some(invitation::BusinessName::MAX))
        .pattern(Some(NAME))
        .build();

    /// [`id::MerchantId`]
    MerchantId = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .description(Some("A merchant's number."))
        .examples([1])
        .minimum(Some(1))
        .maximum(Some(MOST_MERCHANT))
        .build();

    /// [`id::ResellerId`]
    ResellerId = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .description(Some("A reseller's number."))
        .examples([1])
        .minimum(Some(1))
        .build();

    /// Number of items per page.
    Limit = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(1))
        .maximum(Some(100))
        .default(Some(PAGE.into()))
        .build();

    /// Number of merchants per page.
    MerchantsLimit = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(1))
        .maximum(Some(1000))
        .default(Some(1000.into()))
        .build();

    /// Start of a page; created by the service.
    Cursor = string("Where a page begins, as the page before said.", "0000018f2c3d4e5f")
        .build();

    /// [`kassette_domain::webhook::EndpointCreator`]
    EndpointCreator = string("Who made it: `key/<id>`, `operator/<id>`, or `system`. It stays when that key is revoked.", "key/5b1e0c9a7d3f4e2b8a6c4d2e0f1b3a59").build();

    /// [`id::InvitationId`]
    InvitationId = string("An invitation's id, made by the service.", "5b1e0c9a7d3f4e2b8a6c4d2e0f1b3a59")
        .pattern(Some("^[0-9a-f]{32}$"))
        .build();

    /// `{public_url}/invitation/<token>`
    InvitationUrl = string("Where the merchant accepts with a code of its own, or declines.", "https://pay.example/invitation/Zk3v8yq0S1n5m7Qw2E4r6T8y0U1i3O5p7A9s1D3f5G7")
        .format(Some(SchemaFormat::Custom("uri".to_owned())))
        .build();

    /// [`delegation::DelegationStatus`]
    DelegationStatus = growing("Where the reseller stands with the merchant. Only `authorized` lets it create, start and read payments.", "authorized", delegation::DelegationStatus::ALL.map(delegation::DelegationStatus::as_str));

    /// [`kassette_domain::time::Time`]
    Instant = string("A point in time, RFC 3339.", "2026-03-01T09:30:00.000Z")
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .build();

    /// [`order::IdempotencyKey`]
    IdempotencyKey = string("Makes retries safe: one payment for each key.", "order-1042:attempt-1")
        .min_length(Some(8))
        .max_length(Some(190))
        .pattern(Some("^[A-Za-z0-9._:-]+$"))
        .build();

    /// [`money::Minor`], greater than zero.
    InvoiceAmount = string("A positive decimal with exactly two decimal places.", "49.90")
        .pattern(Some("^(0\\.(0[1-9]|[1-9][0-9])|[1-9][0-9]{0,9}\\.[0-9]{2})$"))
        .build();

    /// [`money::Minor`] of US dollars: the largest invoice at the largest rate has 20 digits.
    UsdAmount = string("US dollars at the merchant's rate on creation.", "53.89")
        .pattern(Some("^(0|[1-9][0-9]{0,19})\\.[0-9]{2}$"))
        .build();

    /// [`money::Currency`]
    Currency = one_of("An invoice currency, ISO 4217.", "EUR", money::Currency::ALL.map(money::Currency::code));

    /// [`money::Currency`] in responses: a current client may read a payment in a currency that was added
    /// later.
    PaymentCurrency = growing("The invoice currency, ISO 4217.", "EUR", money::Currency::ALL.map(money::Currency::code));

    /// [`money::Minor`]
    Amount = string("A decimal with exactly two decimal places, zero included.", "0.00")
        .pattern(Some("^(0|[1-9][0-9]{0,19})\\.[0-9]{2}$"))
        .build();

    /// [`id::AttemptId`]
    AttemptId = handle("An attempt's id: what the provider has as our reference.");

    /// [`attempt::AttemptState`]
    AttemptState = growing("Where an attempt stands: at most one of a payment is open. `captured` holds the payment's money, `surplus` money that is not the payment's.", "captured", attempt::AttemptState::ALL.map(attempt::AttemptState::as_str));

    /// [`decline::DeclineCode`]
    DeclineCode = growing("Why an attempt ended without money: `cancelled` by the payer, `failed` by the provider for good, `unavailable` where the provider could not be used.", "insufficient_funds", decline::DeclineCode::ALL.map(decline::DeclineCode::as_str));

    /// [`provider::DisputeKind`]
    DisputeKind = growing("`inquiry`: the payer's bank asks, and no money is at risk yet.", "dispute", [provider::DisputeKind::Inquiry, provider::DisputeKind::Dispute].map(provider::DisputeKind::as_str));

    /// [`id::MovementId`]
    MovementId = handle("The movement's id. What is learned again after a restore has the same one.");

    /// [`movement::MovementKind`]
    MovementKind = growing("What happened to the money.", "captured", movement::MovementKind::ALL.map(movement::MovementKind::as_str));

    /// [`movement::Effect`]
    MovementEffect = one_of("How it changes the balance at the provider account.", "in", [movement::Effect::In, movement::Effect::Out, movement::Effect::None].map(movement::Effect::as_str));

    /// [`movement::Bucket`]
    Bucket = growing("Whose money it is: the payment's own, more than was due, money beside the payment, or money that came after the payment was over.", "own", movement::Bucket::ALL.map(movement::Bucket::as_str));

    /// [`refund::RefundFailure`]
    RefundFailureCode = growing("Why a refund failed: `refused` by the provider, `not_made` as an operator found out, `came_back` after it had succeeded.", "refused", refund::RefundFailure::ALL.map(refund::RefundFailure::as_str));

    /// [`provider::DisputeState`]
    DisputeState = growing("Where a dispute stands. Lost: the money is gone.", "open", provider::DisputeState::ALL.map(provider::DisputeState::as_str));

    /// [`MethodId`]
    PaymentMethod = string(&methods(), "ideal")
        .pattern(Some("^[a-z][a-z0-9_]{1,31}$"))
        .build();

    /// [`payment::ReviewCause`]
    ReviewCode = growing("Why a person has to look at a payment.", "risk", payment::ReviewCause::ALL.map(payment::ReviewCause::as_str));

    /// [`payment::CheckoutMode`]
    CheckoutMode = one_of("`hosted`: the customer picks the method on the checkout page. `direct`: the merchant fixes it.", "hosted", [payment::CheckoutMode::Hosted, payment::CheckoutMode::Direct].map(payment::CheckoutMode::as_str));

    /// [`payment::Status`]
    PaymentStatus = growing("Only `completed` can mean paid, together with `settlement_status`.", "created", payment::Status::ALL.map(payment::Status::as_str));

    /// [`payment::Settlement`]
    SettlementStatus = growing("Whether the money is safe: only `confirmed` says that it is.", "pending", [payment::Settlement::Pending, payment::Settlement::Confirmed, payment::Settlement::Failed].map(payment::Settlement::as_str));

    /// [`id::EventId`]
    EventId = string("An event's id, the same at every attempt and for every receiver.", "4c6d1f0e8a2b4c3d9e5f7a6b8c0d1e2f")
        .pattern(Some("^[0-9a-f]{32}$"))
        .build();

    /// [`event::EventType`]
    EventType = growing("What happened.", "payment.completed", event::EventType::ALL.map(event::EventType::as_str));

    /// [`event::Event::created_at`]
    CreatedAt = string("When it happened, RFC 3339.", "2026-03-01T09:30:00.000Z")
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .build();

    /// `{public_url}/checkout/<token>`
    CheckoutUrl = string("Where the customer's browser goes; use it exactly as it is.", "https://pay.example/checkout/Zk3v8yq0S1n5m7Qw2E4r6T8y0U1i3O5p7A9s1D3f5G7")
        .format(Some(SchemaFormat::Custom("uri".to_owned())))
        .build();

    /// A provider's page, or ours if the payer must answer questions or follow instructions.
    RedirectUrl = string("Where the customer's browser goes to pay.", "https://provider.example/pay/8c1f")
        .format(Some(SchemaFormat::Custom("uri".to_owned())))
        .build();

    /// [`order::Email`]
    Email = string("An e-mail address by the form rule of browsers.", "jane@example.com")
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Email)))
        .min_length(Some(3))
        .max_length(Some(order::Email::MAX))
        .pattern(Some(EMAIL))
        .build();

    /// [`site::ReturnUrl`]
    ReturnUrl = string("An https URL under a verified shop domain of the merchant: no user name, port, IP address or trailing dot of the host. Under `dev` plain http and ports too, where the host is `localhost` or loopback and verified.", "https://shop.example/thanks?order=1042")
        .format(Some(SchemaFormat::Custom("uri".to_owned())))
        .max_length(Some(site::ReturnUrl::MAX))
        .build();

    /// [`extras::Lifetime`]; the maximum is a setting.
    ExpiresIn = whole("Seconds after which a payment expires that no payer is paying: 300 up to the configured life.", extras::Lifetime::LEAST.into(), u32::MAX.into());

    /// [`extras::Locale`]
    Locale = string("The language of the payer's page, a BCP 47 tag, unless the payer chooses another. A language that the pages do not have leaves it to the browser.", "de-AT")
        .min_length(Some(2))
        .max_length(Some(extras::Locale::MAX))
        .pattern(Some("^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$"))
        .build();

    /// [`extras::Metadata`]
    Metadata = ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some("The merchant's own values, shown in lists, details and events and to no provider: at most 20 keys of 1-40 letters, digits or the characters . _ -, with strings of at most 500 characters."))
        .examples([serde_json::json!({ "cart": "c-1042" })])
        .property_names(Some(string("A key.", "cart").min_length(Some(1)).max_length(Some(extras::Metadata::KEY)).pattern(Some("^[A-Za-z0-9_.-]+$")).build()))
        .additional_properties(Some(string("A value.", "c-1042").max_length(Some(extras::Metadata::VALUE))))
        .max_properties(Some(extras::Metadata::MOST))
        .build();

    /// [`extras::Description`]
    Description = string("What is paid for, shown to the payer in one line. No control or text-direction characters, and no blanks around it.", "Two tickets, 12 June")
        .min_length(Some(1))
        .max_length(Some(extras::Description::MAX))
        .build();

    /// [`connect::ConnectCode`], as it is shown.
    ConnectCode = string("A one-time code, issued by an operator.", "kc_0123456789abcdefghijklmnopqrstuvwxyzABCD")
        .pattern(Some("^kc_[0-9A-Za-z]{40}$"))
        .build();

    /// [`connect::SiteUrl`]
    SiteUrl = string("The address of the shop's site: https, without user name, query and fragment.", "https://shop.example/store")
        .format(Some(SchemaFormat::Custom("uri".to_owned())))
        .max_length(Some(connect::SiteUrl::MAX))
        .build();

    /// [`connect::WebhookPath`]
    WebhookPath = string("Where the plugin takes events, below the site's address: no empty, `.` or `..` segment.", "/modules/kassette/webhook")
        .max_length(Some(connect::WebhookPath::MAX))
        .pattern(Some("^(/[A-Za-z0-9._~!$&'()*+,;=:@-]+)+/?$"))
        .build();

    /// [`connect::Challenge`]
    Challenge = string("Drawn by the plugin, anew for each exchange.", "4bc9e1d2f3a4051627384950a1b2c3d4")
        .min_length(Some(32))
        .max_length(Some(128))
        .pattern(Some("^[A-Za-z0-9_-]+$"))
        .build();

    /// [`connect::Proof`]
    Proof = string("HMAC-SHA256 over challenge, newline and site origin, keyed with the code.", "dc3a3b256ff3b23d0badcf7131254d46ce0725c9049b69b9d56037f2bf3c6576")
        .pattern(Some("^[0-9a-f]{64}$"))
        .build();

    /// [`key::Environment`]
    Environment = one_of("Where the money is.", "test", [key::Environment::Test, key::Environment::Live].map(key::Environment::as_str));

    /// [`key::Scope::MERCHANT_ALL`]
    MerchantScope = growing("What a key may do.", "payments:create", key::Scope::MERCHANT_ALL.map(key::Scope::as_str));

    /// [`id::EndpointId`]
    EndpointId = string("A webhook endpoint's id.", "4c6d1f0e8a2b4c3d9e5f7a6b8c0d1e2f")
        .pattern(Some("^[0-9a-f]{32}$"))
        .build();

    /// [`connect::SiteUrl::webhook_url`]
    WebhookUrl = string("Where events are posted to.", "https://shop.example/store/wp-json/kassette/v1/webhook")
        .format(Some(SchemaFormat::Custom("uri".to_owned())))
        .build();

    /// [`kassette_domain::id::DeliveryId`]
    DeliveryId = handle("A delivery's id.");

    /// Hours for which the old secret or key remains valid.
    Overlap = whole("Hours for which the old one stays good beside the new one; 0 where it is absent.", 0, webhook::EndpointSecrets::MAX_OVERLAP.as_secs() / 3600);

    /// URL for events; the gateway checks it.
    Destination = string("An https URL of a public host, without user name and fragment.", "https://shop.example/webhooks")
        .format(Some(SchemaFormat::Custom("uri".to_owned())))
        .build();

    /// [`webhook::DeliveryStatus`]
    DeliveryStatus = one_of("Where a delivery stands.", "delivered", webhook::DeliveryStatus::ALL.map(webhook::DeliveryStatus::as_str));

    /// Which attempts an endpoint's circuit allows.
    Circuit = one_of("Whether attempts are made: `open` holds them back after failures, `half_open` lets one through.", "closed", ["closed", "open", "half_open"]);

    /// [`kassette_domain::release::Release::version`]
    Version = string("A semantic version.", "1.4.2").build();

    /// [`kassette_domain::release::Release::sha256`]
    Sha256 = string("SHA-256 of the file; a shop installs nothing else.", "0f4e2d1c3b5a69788796a5b4c3d2e1f00f4e2d1c3b5a69788796a5b4c3d2e1f0")
        .pattern(Some("^[0-9a-f]{64}$"))
        .build();

    /// [`kassette_domain::release::Release::released_at`]
    ReleasedAt = string("When it was released, RFC 3339.", "2026-11-20T09:00:00.000Z")
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .build();

    /// [`kassette_domain::release::Release::download_url`]
    DownloadUrl = string("Where shops download it.", "https://downloads.example/kassette-woocommerce-1.4.2.zip")
        .format(Some(SchemaFormat::Custom("uri".to_owned())))
        .build();

    /// [`kassette_domain::release::Release::changelog_url`]
    ChangelogUrl = string("What has changed, for people.", "https://downloads.example/changelog")
        .format(Some(SchemaFormat::Custom("uri".to_owned())))
        .build();
}

/// Number of items per page if `limit` is absent.
pub(super) const PAGE: usize = 50;

/// Maximum number of a merchant: every JSON parser represents it exactly.
pub(super) const MOST_MERCHANT: u64 = (1 << 53) - 1;

/// At least one visible character, as far as a character class can determine it (`kassette_domain::text` is
/// complete), and no refused character.
const ORDER_ID: &str = concat!(
    r"^[^\u0000-\u001F\u007F-\u009F\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]*",
    r"[^\s\u0000-\u001F\u007F-\u009F\u00AD\u034F\u061C\u115F\u1160\u17B4\u17B5\u180B-\u180F",
    r"\u200B-\u200F\u202A-\u202E\u2060-\u206F\u2800\u3164\uFE00-\uFE0F\uFEFF\uFFA0\uFFF0-\uFFFB]",
    r"[^\u0000-\u001F\u007F-\u009F\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]*$",
);

/// The same for a name: the first and the last character are visible, as far as a character class can determine
/// it.
pub(crate) const NAME: &str = concat!(
    r"^[^\s\u0000-\u001F\u007F-\u009F\u00AD\u034F\u061C\u115F\u1160\u17B4\u17B5\u180B-\u180F",
    r"\u200B-\u200F\u202A-\u202E\u2060-\u206F\u2800\u3164\uFE00-\uFE0F\uFEFF\uFFA0\uFFF0-\uFFFB]",
    r"([^\u0000-\u001F\u007F-\u009F\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]*",
    r"[^\s\u0000-\u001F\u007F-\u009F\u00AD\u034F\u061C\u115F\u1160\u17B4\u17B5\u180B-\u180F",
    r"\u200B-\u200F\u202A-\u202E\u2060-\u206F\u2800\u3164\uFE00-\uFE0E\uFEFF\uFFA0\uFFF0-\uFFFB])?$",
);

/// The WHATWG's "valid e-mail address".
const EMAIL: &str = concat!(
    r"^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?",
    r"(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$",
);
