//! Formats of texts and numbers that only operators see, derived from the code that reads or writes them.

use std::borrow::Cow;

use kassette_domain::money;
use kassette_domain::rates::RateSource as Sources;
use kassette_domain::work::WorkKind as Works;
use kassette_domain::{connect, key, operator};
use serde_json::json;
use utoipa::openapi::schema::{
    AdditionalProperties, Object, ObjectBuilder, OneOfBuilder, SchemaType, Type,
};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::super::payment_view::OWN_RATES;
pub(super) use crate::api::formats::{
    AttemptId, AttemptState, Bucket, ClientRef, Currency, Cursor, DelegationStatus, EndpointId,
    Environment, EventId, EventType, Instant, InvitationId, InvoiceAmount, Limit, MerchantId,
    MerchantScope, MovementKind, Overlap, PaymentId, PaymentMethod, PaymentStatus, ProviderId,
    ResellerId, SettlementStatus, Sha256, SiteUrl,
};
use crate::api::formats::{NAME, formats, handle, one_of, string, whole};

fn text(description: &str, example: &str, most: usize) -> Object {
    string(description, example)
        .min_length(Some(1))
        .max_length(Some(most))
        .pattern(Some(NAME))
        .build()
}

/// Exchange rates by currency.
fn rates(
    description: &str,
    rate: &RefOr<Schema>,
    known: impl Fn(&money::Currency) -> bool,
) -> Object {
    let currencies = money::Currency::ALL.into_iter();
    currencies
        .filter(known)
        .fold(ObjectBuilder::new(), |object, currency| {
            object.property(currency.code(), rate.clone())
        })
        .description(Some(description))
        .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(false)))
        .build()
}

/// The same, or `null`.
pub(super) fn or_null(schema: impl Into<RefOr<Schema>>) -> RefOr<Schema> {
    let null = ObjectBuilder::new().schema_type(Type::Null);
    RefOr::T(Schema::OneOf(
        OneOfBuilder::new().item(null).item(schema).build(),
    ))
}

/// The format of a path parameter, by its name or by the preceding segment.
pub(super) fn of_path(before: &str, name: &str) -> RefOr<Schema> {
    match (before, name) {
        (_, "merchant_id") | ("merchants", _) => MerchantId::schema(),
        ("resellers", _) => ResellerId::schema(),
        (_, "domain") => Domain::schema(),
        (_, "slot") => Slot::schema(),
        ("providers", _) => ProviderId::schema(),
        _ => Handle::schema(),
    }
}

formats! {
    /// An id in a path.
    Handle = handle("An id, made by the service.");

    /// [`super::super::body::audit_text`]
    AuditText = text("No control or text-direction characters; the first and the last character show.", "Ann, ticket 4711", 500);

    /// A merchant's or a reseller's name.
    Name = text("Shown to payers. No control or text-direction characters; the first and the last character show.", "Shop Seven", 100);

    /// [`operator::Operator::read_name`]
    OperatorName = string("Stands in the audit log; no other operator has it. No control, text-direction or invisible characters, no blanks around it.", "ann")
        .min_length(Some(1))
        .max_length(Some(operator::Operator::MAX_NAME))
        .build();

    /// [`operator::Role`]
    Role = one_of("What an operator may do: a viewer reads, an admin does everything.", "operator", ["viewer", "operator", "admin"]);

    /// [`kassette_domain::id::KeyId`]
    KeyId = handle("A key's handle for operators. Not the key.");

    /// [`kassette_domain::id::ConnectCodeId`]
    ConnectCodeId = handle("A connect code's handle for operators. Not the code.");


    /// [`kassette_domain::id::WorkId`]
    WorkId = handle("A line's id.");

    /// [`kassette_domain::id::OperatorId`]
    OperatorId = handle("An operator's handle. Not the token.");

    /// [`key::Scope`]
    Scope = one_of("What a key may do. A merchant's key has scopes of payments, a reseller's those that begin with `reseller:`; `account:manage` either.", "payments:create", key::Scope::MERCHANT_ALL.into_iter().chain([key::Scope::ResellerRefund]).chain(key::Scope::RESELLER).map(key::Scope::as_str));

    /// [`connect::CodeState`]
    ConnectCodeState = one_of("Whether the code can be redeemed.", "live", [connect::CodeState::Live, connect::CodeState::Redeemed, connect::CodeState::Burned, connect::CodeState::Expired].map(connect::CodeState::as_str));

    /// [`kassette_domain::site::parse_domain`]
    Domain = string("A host's name: no public suffix, no IP address, no trailing dot. Under `dev` `localhost` and loopback addresses too.", "shop.example")
        .min_length(Some(3))
        .max_length(Some(253))
        .build();

    /// [`money::Rate`]
    Rate = string("US dollars per unit of the currency: positive, at most ten decimals.", "1.08")
        .min_length(Some(1))
        .max_length(Some(21))
        .pattern(Some("^[0-9]*\\.?[0-9]*$"))
        .build();

    /// [`kassette_domain::merchant::Merchant::rates`]
    Rates = rates("The merchant's own exchange rates, by currency: they go before a source's. An invoice in a currency that has neither is refused; the US dollar needs none.", &Rate::schema(), |_| true);

    /// The same as a merge patch.
    RatesPatch = rates("Exchange rates by currency, as a merge patch: one that is not named stays, `null` removes it. What is named counts as set now.", &or_null(Rate::schema()), |currency| *currency != money::Currency::USD);

    /// [`money::Minor`]
    Amount = string("A decimal with exactly two decimal places.", "49.90")
        .pattern(Some("^(0|[1-9][0-9]*)\\.[0-9]{2}$"))
        .build();

    /// [`money::Minor::parse`]
    LimitAmount = string("US dollars with exactly two decimal places.", "1.00")
        .pattern(Some("^(0|[1-9][0-9]{0,9})\\.[0-9]{2}$"))
        .build();

    /// A currency code of a provider. Amounts due have only those of [`Currency`].
    AnyCurrency = string("A currency's code, as the provider names it.", "EUR").build();

    /// [`kassette_domain::policy::RateLimit::per_second`] and its `burst`.
    Requests = whole("Requests.", 1, super::super::policy::MAX_RATE);

    /// [`super::super::dev::MOST_ENTRIES`]
    BooksLimit = whole("Entries of a page.", 1, super::super::dev::MOST_ENTRIES as u64);

    /// [`kassette_domain::policy::Policy::fx_max_age_seconds`]
    RateAge = whole("Seconds.", 1, super::super::policy::MAX_AGE);

    /// [`money::Margin`]
    Margin = string("A share from 0 to less than 1, with at most ten decimals.", "0.015")
        .min_length(Some(1))
        .max_length(Some(21))
        .pattern(Some("^0*\\.?[0-9]*$"))
        .build();

    /// [`kassette_domain::brand::Colour`]
    Colour = string("Red, green and blue in hexadecimal digits.", "#12453a")
        .pattern(Some("^#[0-9a-fA-F]{6}$"))
        .build();

    /// [`Sources`]
    RateSource = one_of("Whose rate: the merchant's own, the operator's file or the European Central Bank's.", "ecb", std::iter::once(OWN_RATES).chain(Sources::ALL.map(Sources::as_str)));

    /// [`Sources`]
    SourceName = one_of("The operator's file or the European Central Bank.", "file", Sources::ALL.map(Sources::as_str));

    /// [`super::super::rates`]
    RateState = one_of("Whether the rate is used. `refused`: there is none but one that jumps.", "used", ["used", "old", "refused"]);

    /// How long ago.
    Age = whole("Seconds.", 0, u64::MAX >> 11);

    /// [`kassette_domain::delegation::DelegationStatus`], the values that operators can set.
    Decided = one_of("Whether the reseller may act for the merchant.", "authorized", ["authorized", "revoked"]);

    /// [`kassette_domain::payment::ReviewCause`]
    ReviewCause = one_of("Why a payment is in review. The provider's final word ends `vendor` and `silence`, an operator the others.", "risk", ["vendor", "silence", "risk", "mismatch", "late_money", "refund", "dispute", "operator", "refused"]);

    /// [`kassette_domain::payment::Resolution`]
    Resolution = one_of("Which way.", "approve", ["approve", "decline"]);

    /// [`kassette_domain::payment::Settlement`], the values that operators can set.
    SaidSettlement = one_of("What the payment's settlement is after an approval.", "confirmed", ["confirmed", "pending"]);

    /// [`kassette_domain::payment::DecisionState`]
    DecisionState = one_of("Whether the decision was carried out. `lapsed`: it could not be, and the payment is still in review.", "done", ["waiting", "done", "lapsed"]);

    /// [`kassette_domain::provider::RefundState`]
    RefundState = one_of("What became of a refund.", "succeeded", ["pending", "succeeded", "failed"]);

    /// [`kassette_domain::payment::Purpose`]
    Purpose = one_of("What was decided: a direct payment's creation, or a start.", "start", ["create", "start"]);

    /// [`Works`]
    WorkKind = one_of("Why a person has to look. `review`: a payment in review, whose `id` is the payment's.", "surplus", Works::ALL.map(Works::as_str).into_iter().chain(["review"]));

    /// [`super::super::work`]
    WorkAction = one_of("What can be done about it.", "refund", ["approve", "decline", "refund", "settle", "query", "done"]);

    /// [`kassette_domain::movement::Source`]
    MovementSource = one_of("How the gateway learned of it.", "query", ["notification", "query", "answer", "operator"]);

    /// [`kassette_domain::movement::Effect`], the values that operators can set.
    CorrectionEffect = one_of("Whether money came in or went out.", "in", ["in", "out"]);

    /// [`kassette_domain::order::Email`]
    Address = string("An e-mail address.", "payer@post.example").max_length(Some(254)).build();

    /// [`super::super::find`]
    FoundText = string("Some text.", "order-1").min_length(Some(1)).max_length(Some(512)).build();

    /// [`super::super::find`]
    FoundKind = one_of("What was found.", "payment", ["payment", "attempt", "refund", "dispute", "event", "delivery"]);

    /// [`super::super::find`]
    FoundBy = one_of("By what it was found.", "order_id", ["id", "id_prefix", "order_id", "client_ref", "amount", "email", "last_four", "reference"]);

    /// Outcome of a refund according to an operator.
    SettledOutcome = one_of("Whether the refund was made.", "made", ["made", "not_made"]);

    /// A date.
    Day = string("A day of the calendar.", "2030-01-31").pattern(Some("^[0-9]{4}-[0-9]{2}-[0-9]{2}$")).build();

    /// A time zone.
    Zone = string("IANA name of a time zone.", "Europe/Helsinki").build();

    /// [`kassette_gateway::ledger::signed`]
    SignedAmount = string("A decimal with exactly two decimal places, perhaps negative.", "-5.00")
        .pattern(Some("^-?(0|[1-9][0-9]*)\\.[0-9]{2}$"))
        .build();

    /// [`super::super::finance`]
    ProviderReference = string("An id that the provider's statements print.", "tr_7UhSN1zuXS").min_length(Some(1)).max_length(Some(200)).build();

    /// [`kassette_domain::id::Slot`]
    Slot = string("A place for a module: `method.` and a method's id, or `provider.` and a module's name.", "method.ideal")
        .pattern(Some("^(method|provider)\\.[a-z][a-z0-9_]{1,31}$"))
        .build();

    /// [`kassette_domain::id::SlotKind`]
    SlotKind = one_of("What its module does.", "method", ["method", "provider"]);

    /// [`kassette_runtime::SlotState`]
    SlotState = one_of("Whether a module serves. `benched`: the active version keeps failing, the last good one serves.", "serving", ["serving", "benched", "failed", "disabled"]);

    /// [`kassette_domain::id::Digest`]
    Digest = string("SHA-256 of a file.", "0f4e2d1c3b5a69788796a5b4c3d2e1f00f4e2d1c3b5a69788796a5b4c3d2e1f0")
        .pattern(Some("^[0-9a-f]{64}$"))
        .build();

    /// [`crate::web::text::digest_begin`]
    KeptDigest = string("SHA-256 of a version that is kept, or the beginning of it that no other version of the slot has.", "0f4e2d1c3b5a")
        .pattern(Some("^[0-9a-f]{8,64}$"))
        .build();

    /// [`kassette_runtime::ModuleClass`]
    Class = one_of("How the module runs.", "native", [kassette_runtime::ModuleClass::Native, kassette_runtime::ModuleClass::Interpreted].map(kassette_runtime::ModuleClass::as_str));

    /// [`kassette_runtime::Cause`]
    VersionCause = one_of("Why the version became active; `ended`: its trial ended, and it did not.", "upload", ["folder", "upload", "promote", "pin", "rollback", "kept", "bundled", "ended"]);

    /// How an uploaded module is activated.
    UploadMode = one_of("`activate`: it serves at once; `shadow`: it is put on trial. Absent: as the setting `plugins.uploads` says.", "activate", ["activate", "shadow"]);

    /// The kind of a candidate's trial.
    TrialMode = one_of("`shadow`: it is asked what live decisions asked and decides none; `canary`: it decides a share of the payments.", "canary", ["shadow", "canary"]);

    /// [`kassette_domain::candidate::Canary`]
    Percent = whole("Of a hundred payments.", 1, 100);

    /// [`kassette_domain::candidate::STEP_TIMES`]
    StepSeconds = whole("Seconds.", *kassette_domain::candidate::STEP_TIMES.start(), *kassette_domain::candidate::STEP_TIMES.end());

    /// [`kassette_domain::candidate::SuccessRate::evidence`]
    Evidence = string("A whole number: how many to one the failures speak against a candidate that is no worse; it is rolled back at 200.", "1").build();

    /// [`crate::admin::replay`]
    ReplayKind = one_of("What was tried.", "module", ["module", "settings", "policy"]);

    /// [`kassette_gateway::replay::ReplayChange`]
    ReplayChange = one_of("What becomes of the payment.", "moved", super::super::replay::CHANGES.map(kassette_gateway::replay::ReplayChange::as_str));

    /// [`kassette_gateway::replay::MOST`]
    ReplayLast = whole("Decisions.", 1, kassette_gateway::replay::MOST);
    ReplayExamples = whole("Payments that are named.", 0, kassette_gateway::replay::MOST_EXAMPLES as u64);

    /// Settings by name.
    MethodSettings = ObjectBuilder::new()
        .description(Some("Settings by name: a text, a whole number, true or false."))
        .additional_properties(Some(RefOr::T(Schema::OneOf(OneOfBuilder::new()
            .item(ObjectBuilder::new().schema_type(Type::String))
            .item(ObjectBuilder::new().schema_type(Type::Integer))
            .item(ObjectBuilder::new().schema_type(Type::Boolean))
            .build()))))
        .build();

    /// A time with a decimal.
    Microseconds = string("Microseconds with a decimal place.", "4.2").build();

    /// [`kassette_domain::routing::Availability`]
    HealthState = one_of("How an account fares. `down`: new attempts fail there, or nothing recent is known of it.", "operational", ["operational", "degraded", "down"]);

    /// What enables or disables an account.
    EnabledBy = one_of("What decides whether an account gets new attempts.", "file", ["file", "switch"]);

    /// A position of the switch, or the account's file.
    EnabledPatch = ObjectBuilder::new()
        .schema_type(SchemaType::Array(vec![Type::Boolean, Type::String]))
        .description(Some("`true` and `file` remove the switch."))
        .enum_values(Some([json!(true), json!(false), json!("file")]))
        .build();

    /// [`kassette_gateway::health::UnhealthyReason`]
    HealthReason = one_of("Why an account is not well.", "vendor", kassette_gateway::health::UnhealthyReason::ALL.map(kassette_gateway::health::UnhealthyReason::as_str));

    /// [`crate::admin::download::Format`]
    ExportFormat = one_of("What a line is.", "csv", ["csv", "jsonl"]);

    /// A state in a query.
    AnyDeliveryStatus = one_of("A state of deliveries.", "failed", ["pending", "delivered", "exhausted", "cancelled", "failed"]);

    /// [`crate::status::State`]
    StatusState = one_of("How well it is. `attention`: a person has to look at it; `failing`: payments fail, or soon will.", "ok", crate::status::State::ALL.map(crate::status::State::as_str));

    /// Id of an audit entry.
    AuditId = whole("Entries are counted from 1.", 1, u64::MAX);

    /// A search text for the audit log.
    AuditPart = ObjectBuilder::new().schema_type(Type::String).build();

    /// A boolean in a query.
    Switch = ObjectBuilder::new().schema_type(Type::Boolean).build();

    /// A merchant in a query; an unknown one matches nothing.
    AnyMerchant = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .description(Some("A merchant's number."))
        .minimum(Some(0))
        .build();

    /// An order reference in a query.
    AnyOrder = string("Compared as it is.", "order-1042").build();

    /// A provider's reference in a query.
    Reference = string("Compared as it is.", "tr_7UhSN1zuXS").min_length(Some(1)).build();

    /// Name of a fault; the error for an unknown name lists all.
    Fault = string("The fault's name, `none` ends the one before.", "status-500").build();

    /// [`crate::simulators::MAX_ADVANCE`]
    Advance = whole("Seconds.", 0, crate::simulators::MAX_ADVANCE.as_secs());
}
