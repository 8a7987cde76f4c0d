//! Merchants: rates, routing and risk limits.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use kassette_domain::audit::Audited;
use kassette_domain::brand::Brand;
use kassette_domain::id::MerchantId;
use kassette_domain::merchant::{Merchant, Quote, SetRate};
use kassette_domain::money::{Currency, Margin, Rate};
use kassette_domain::operator::Role;
use kassette_domain::policy::{Policy, RateLimit};
use kassette_domain::rates::{RateSource, RateTables};
use kassette_domain::time::Time;
use kassette_store::{NewMerchant, Replaced};
use serde_json::json;

use super::AdminState;
use super::body::{Attribution, JsonBody, PatchBody};
use super::caller::{Admin, Changes, Viewer};
use super::payment_view::OWN_RATES;
use crate::web::ApiError;
use crate::web::code::Code;
use crate::web::json::{Value, Wrong, echo, text};
use crate::web::path::At;
use crate::web::query::{Query, page};
use crate::web::text::{plain, switch, within};

/// Maximum length of a merchant's name in characters, because payers' pages show it.
const NAME: usize = 100;
/// Number of retries after concurrent changes of the merchant.
const RACES: usize = 8;

/// `POST /merchants`
pub(super) async fn create(
    Admin(caller): Admin,
    State(state): State<AdminState>,
    JsonBody(mut fields): JsonBody,
) -> Result<Response, ApiError> {
    let now = state.gateway.clock().now();
    let attribution = Attribution::in_body(&mut fields)?;
    let name = fields.required("name", text(plain::<NAME>))?;
    let live_approved = fields.optional("live_approved", switch)?.unwrap_or(false);
    let rates = fields.optional("fx_rates", |value| rates(value, &BTreeMap::new(), now))?;
    let default_rate = state.gateway.settings().rate_limit;
    let policy = fields.optional("policy", |value| {
        super::policy::merge(value, &Policy::default(), default_rate, &state.gateway)
    })?;
    let brand = fields.optional("brand", |value| {
        super::brand::merge(value, &Brand::default())
    })?;
    fields.finish()?;
    if live_approved {
        caller.require(&attribution)?;
    }
    let merchant = Merchant {
        // The store assigns the number.
        id: MerchantId(0),
        name,
        live_approved,
        rates: rates.unwrap_or_default(),
        policy: policy.unwrap_or_default(),
        brand: brand.unwrap_or_default(),
        domains: Vec::new(),
        created_at: now,
    };
    let mut after = state.merchant(&merchant);
    // The merchant has no id yet; the entry's object contains it.
    if let Some(after) = after.as_object_mut() {
        after.remove("merchant_id");
    }
    let audited = Audited {
        after: Some(after.to_string()),
        ..caller.audited(attribution, "merchant.create", "merchant".to_owned())
    };
    let merchant = state
        .gateway
        .store()
        .create_merchant(NewMerchant { merchant }, audited, now)
        .await
        .map_err(ApiError::from)?;
    Ok((StatusCode::CREATED, Json(state.merchant(&merchant))).into_response())
}

/// `GET /merchants`
pub(super) async fn list(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<serde_json::Value>, ApiError> {
    let paging = Query::parse(query.as_deref())?.paging()?;
    let listed = state.gateway.store().merchants(paging).await;
    page("merchants", listed, |merchant| state.merchant(&merchant))
}

/// `GET /merchants/{id}`
pub(super) async fn show(
    _: Viewer,
    State(state): State<AdminState>,
    At(id): At<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<serde_json::Value>, ApiError> {
    Query::parse(query.as_deref())?.finish()?;
    Ok(Json(state.merchant(&find(&state, &id).await?)))
}

/// `GET /merchants/{id}/rates`: the current conversion rate of each currency.
pub(super) async fn show_rates(
    _: Viewer,
    State(state): State<AdminState>,
    At(id): At<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<serde_json::Value>, ApiError> {
    Query::parse(query.as_deref())?.finish()?;
    let merchant = find(&state, &id).await?;
    let (now, tables) = (state.gateway.clock().now(), state.gateway.rates());
    let rates = Currency::ALL.map(|currency| {
        let usable = merchant.usable_rate(currency, now, &tables);
        // An outdated rate explains why no rate is usable.
        let quote = usable.or_else(|| merchant.quotes(currency, now, &tables).next());
        let is_dollar = currency == Currency::USD;
        let source = |quote: &Quote| quote.source.map_or(OWN_RATES, RateSource::as_str);
        let dated = quote.as_ref().filter(|_| !is_dollar);
        json!({
            "currency": currency,
            "rate": quote.map(|quote| quote.rate.to_string()),
            "source": dated.map(source),
            "set_at": dated.map(|quote| quote.at.rfc3339()),
            "age_seconds": dated.map(|quote| now.since(quote.at).as_secs()),
            "usable": usable.is_some(),
        })
    });
    Ok(Json(json!({ "rates": rates })))
}

/// `PATCH /merchants/{id}`: JSON merge patch (RFC 7396).
pub(super) async fn change(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    PatchBody { mut fields, nulls }: PatchBody,
) -> Result<Json<serde_json::Value>, ApiError> {
    let now = state.gateway.clock().now();
    if let Some(name) = ["name", "live_approved"]
        .into_iter()
        .find(|name| nulls.contains(*name))
    {
        return Err(ApiError::invalid(name, "must not be null"));
    }
    let attribution = Attribution::in_body(&mut fields)?;
    let name = fields.optional("name", text(plain::<NAME>))?;
    let live_approved = fields.optional("live_approved", switch)?;
    if live_approved.is_some() && !caller.is(Role::Admin) {
        return Err(ApiError::forbidden(
            Code::RoleTooLow,
            "live_approved: changing it needs the role admin",
        ));
    }
    let said_rates = fields.optional("fx_rates", Ok)?;
    let force = fields.optional("force", switch)?.unwrap_or(false);
    let said_policy = fields.optional("policy", Ok)?;
    let said_brand = fields.optional("brand", Ok)?;
    fields.finish()?;
    let default_rate = state.gateway.settings().rate_limit;
    let merchant = find(&state, &id).await?;
    if live_approved.is_some() || said_policy.is_some() || nulls.contains("policy") || force {
        caller.require(&attribution)?;
    }
    let object = format!("merchant/{}", merchant.id);
    let line = caller.audited(attribution, "merchant.change", object);
    let changed = replace(&state, merchant, line, now, |merchant| {
        if let Some(name) = &name {
            merchant.name.clone_from(name);
        }
        if let Some(approved) = live_approved {
            merchant.live_approved = approved;
        }
        if nulls.contains("fx_rates") {
            merchant.rates.clear();
        }
        if nulls.contains("policy") {
            merchant.policy = Policy::default();
        }
        if nulls.contains("brand") {
            merchant.brand = Brand::default();
        }
        if let Some(value) = said_rates.clone() {
            let set = within("fx_rates", value, |value| {
                rates(value, &merchant.rates, now)
            })?;
            let tables = state.gateway.rates();
            if let Some(why) = jump(&set, &merchant.rates, &tables).filter(|_| !force) {
                return Err(ApiError::invalid("fx_rates", why));
            }
            merchant.rates = set;
        }
        if let Some(value) = said_policy.clone() {
            merchant.policy = within("policy", value, |value| {
                super::policy::merge(value, &merchant.policy, default_rate, &state.gateway)
            })?;
        }
        if let Some(value) = said_brand.clone() {
            let brand = |value| super::brand::merge(value, &merchant.brand);
            merchant.brand = within("brand", value, brand)?;
        }
        Ok(())
    })
    .await?;
    Ok(Json(state.merchant(&changed)))
}

/// Changes a merchant unless another caller has changed it in the meantime; then retries.
pub(super) async fn replace(
    state: &AdminState,
    mut before: Merchant,
    line: Audited,
    now: Time,
    change: impl Fn(&mut Merchant) -> Result<(), ApiError>,
) -> Result<Merchant, ApiError> {
    for _ in 0..RACES {
        let mut after = before.clone();
        change(&mut after)?;
        let audited = Audited {
            before: Some(state.snapshot(&before)),
            after: Some(state.snapshot(&after)),
            ..line.clone()
        };
        let id = before.id;
        let store = state.gateway.store();
        let replaced = store.replace_merchant(before, after, audited, now).await;
        match replaced.map_err(ApiError::from)? {
            Replaced::Done(merchant) => return Ok(merchant),
            Replaced::Unknown => return Err(ApiError::NotFound("merchant not found")),
            Replaced::Stale => before = find(state, &id.to_string()).await?,
        }
    }
    Err(ApiError::conflict(
        "the merchant is being changed by others; read it and try again",
    ))
}

/// The merchant with the number in a path.
pub(super) async fn find(state: &AdminState, id: &str) -> Result<Merchant, ApiError> {
    let not_found = ApiError::NotFound("merchant not found");
    let Ok(number) = id.parse() else {
        return Err(not_found);
    };
    let found = state.gateway.store().merchant(MerchantId(number)).await;
    found.map_err(ApiError::from)?.ok_or(not_found)
}

/// Merges rates into `old`: a changed rate is set now, `null` removes one.
fn rates(
    value: Value,
    old: &BTreeMap<Currency, SetRate>,
    now: Time,
) -> Result<BTreeMap<Currency, SetRate>, Wrong> {
    let Value::Object(object) = value else {
        return Err(Wrong::new("must be an object"));
    };
    let mut rates = old.clone();
    for (code, value) in object {
        let currency = Currency::parse(&code)
            .ok_or_else(|| Wrong::new(format!("{} is no supported currency", echo(&code))))?;
        if currency == Currency::USD {
            return Err(Wrong::new("USD is 1 and needs no rate"));
        }
        match value {
            Value::Null => {
                rates.remove(&currency);
            }
            Value::Text(rate) => {
                let rate = Rate::parse(&rate)
                    .map_err(|wrong| Wrong::new(format!("{currency}: {wrong}")))?;
                rates.insert(currency, SetRate { rate, at: now });
            }
            _ => {
                return Err(Wrong::new(format!(
                    "{currency}: must be a string such as \"1.08\""
                )));
            }
        }
    }
    Ok(rates)
}

/// Reason why new rates look like mistakes: one differs by more than 20 % from the merchant's previous rate,
/// or, if there was none, from the European Central Bank's. `None` if all are plausible.
fn jump(
    new: &BTreeMap<Currency, SetRate>,
    old: &BTreeMap<Currency, SetRate>,
    tables: &RateTables,
) -> Option<String> {
    let bank = tables.get(&RateSource::Ecb);
    new.iter().find_map(|(currency, set)| {
        let own = old.get(currency).map(|old| (old.rate, "the rate before"));
        let earlier = own.or_else(|| {
            let rate = bank?.rate(*currency, Margin::default())?;
            Some((rate, "the European Central Bank's"))
        });
        let (earlier, whose) = earlier.filter(|(earlier, _)| set.rate.jumps_from(*earlier))?;
        Some(format!(
            "{currency}: {} is more than 20 % off {whose}, {earlier}; force takes it",
            set.rate
        ))
    })
}

impl AdminState {
    /// A merchant for operators.
    pub(super) fn merchant(&self, merchant: &Merchant) -> serde_json::Value {
        view(merchant, self.gateway.settings().rate_limit)
    }

    fn snapshot(&self, merchant: &Merchant) -> String {
        self.merchant(merchant).to_string()
    }
}

fn view(merchant: &Merchant, default_rate: RateLimit) -> serde_json::Value {
    let rates: serde_json::Map<_, _> = merchant
        .rates
        .iter()
        .map(|(currency, set)| (currency.to_string(), set.rate.to_string().into()))
        .collect();
    json!({
        "merchant_id": merchant.id,
        "name": merchant.name,
        "live_approved": merchant.live_approved,
        "fx_rates": rates,
        "policy": super::policy::view(&merchant.policy, default_rate),
        "brand": super::brand::view(&merchant.brand),
        "domains": merchant.domains,
        "created_at": merchant.created_at.rfc3339(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_rate_is_set_now_and_the_others_keep_their_time() {
        let read = |body: &str, old: &BTreeMap<_, _>, now| {
            rates(crate::web::json::parse(body.as_bytes()).unwrap(), old, now)
        };
        let first = read(
            r#"{"EUR":"1.08","GBP":"1.27"}"#,
            &BTreeMap::new(),
            Time::from_secs(1),
        )
        .unwrap();
        let second = read(r#"{"EUR":"1.09"}"#, &first, Time::from_secs(2)).unwrap();
        assert_eq!(second[&Currency::EUR].at, Time::from_secs(2));
        assert_eq!(second[&Currency::GBP].at, Time::from_secs(1));
        let third = read(r#"{"GBP":null}"#, &second, Time::from_secs(3)).unwrap();
        assert!(!third.contains_key(&Currency::GBP));
        for wrong in [
            r#"{"EUR":1.08}"#,
            r#"{"EUR":"0"}"#,
            r#"{"eur":"1"}"#,
            r#"{"USD":"1"}"#,
            "[]",
        ] {
            assert!(read(wrong, &first, Time::default()).is_err(), "{wrong}");
        }
    }
}
