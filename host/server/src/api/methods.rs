//! The methods that are currently available.

use axum::extract::State;
use axum::response::Response;
use kassette_domain::id::AccountId;
use kassette_domain::money::{Currency, Minor};
use kassette_gateway::create::CreateError;
use kassette_gateway::methods::{Offer, OfferedProvider, RankRequest};
use serde::Serialize;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::{RefOr, Required, Schema};
use utoipa::{PartialSchema as _, ToSchema};

use super::access::MerchantRead;
use super::document::Authenticated;
use super::state::ApiState;
use super::{answer, formats, query};
use crate::web::error::ApiError;
use crate::web::text::currency;

/// The available methods.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Methods)]
pub(super) struct MethodsBody {
    /// In the order of the specification, without methods that have no eligible provider.
    methods: Vec<MethodBody>,
}

/// A method with its providers.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Method)]
pub(super) struct MethodBody {
    #[schema(value_type = formats::PaymentMethod)]
    id: String,
    /// Name for people.
    #[schema(example = "iDEAL")]
    label: String,
    /// Providers that are currently eligible, in routing order.
    providers: Vec<ProviderBody>,
}

/// A provider that would take the payment.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Provider)]
pub(super) struct ProviderBody {
    #[schema(value_type = formats::ProviderId)]
    id: AccountId,
    /// Name for people.
    #[schema(example = "Sandbox")]
    name: String,
    /// A sentence about what the provider verifies.
    #[schema(required)]
    verification_note: Option<String>,
    /// Page that explains it.
    #[schema(required)]
    verification_url: Option<String>,
}

impl From<Offer> for MethodBody {
    fn from(offer: Offer) -> Self {
        Self {
            id: offer.method.to_string(),
            label: offer.description.label.clone(),
            providers: offer.providers.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<OfferedProvider> for ProviderBody {
    fn from(provider: OfferedProvider) -> Self {
        Self {
            id: provider.id,
            name: provider.name,
            verification_note: provider.verification_note,
            verification_url: provider.verification_url,
        }
    }
}

/// The query's parameters for the document; [`read`] parses them.
pub(super) struct MethodsQuery;

impl utoipa::IntoParams for MethodsQuery {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let parameter = |name: &str, schema: RefOr<Schema>, description: &str| {
            query::parameter(name, Required::False, schema, description)
        };
        vec![
            parameter(
                "amount",
                formats::InvoiceAmount::schema(),
                "What is to be paid; without it limits are not applied.",
            ),
            parameter(
                "currency",
                formats::Currency::schema(),
                "Of what; `USD` where it is absent.",
            ),
        ]
    }
}

/// Parses the query: amount and currency.
fn read(query: Option<&str>) -> Result<(Option<Minor>, Currency), ApiError> {
    let [amount, code] = query::read(query, ["amount", "currency"])?;
    let amount = amount.map(|text| Minor::parse_positive(&text)).transpose();
    let code = code.map(|text| currency(&text)).transpose();
    Ok((
        amount.map_err(|why| ApiError::invalid("amount", why))?,
        code.map_err(|why| ApiError::invalid("currency", why))?
            .unwrap_or(Currency::USD),
    ))
}

/// Lists the methods that are configured and currently eligible.
///
/// The list reflects the current configuration and does not guarantee that a payment will succeed.
#[utoipa::path(
    get, path = "/api/v1/methods", tag = "Methods", operation_id = "listMethods",
    params(MethodsQuery),
    responses(
        (status = 200, description = "The methods.", body = MethodsBody),
        Authenticated,
    ),
    security(("merchant_key" = []))
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    MerchantRead { caller, arrived }: MerchantRead,
) -> Result<Response, ApiError> {
    let (amount, currency) = read(arrived.parts.uri.query())?;
    let merchant = &caller.merchant;
    let usd = match state.gateway().usd_now(merchant, amount, currency) {
        Ok(usd) => usd,
        // No method is available for a payment above the merchant's limit.
        Err(CreateError::OverLimit) => {
            return answer::json(&MethodsBody { methods: vec![] }, 16);
        }
        Err(error) => return Err(error.into()),
    };
    let question = RankRequest {
        merchant,
        environment: caller.key.environment,
        amount,
        currency,
        usd,
        email_known: false,
    };
    let offers = state.gateway().offers(question).await?;
    let body = MethodsBody {
        methods: offers.into_iter().map(Into::into).collect(),
    };
    answer::json(&body, 2048)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amount_and_currency_are_optional_and_strict() {
        assert_eq!(read(None).unwrap(), (None, Currency::USD));
        let asked = read(Some("amount=49.90&currency=EUR")).unwrap();
        assert_eq!(asked, (Some(Minor(4990)), Currency::EUR));
        for (query, name) in [
            ("amount=", "amount"),
            ("amount=49", "amount"),
            ("amount=0.00", "amount"),
            ("amount=%2049.90", "amount"),
            ("currency=", "currency"),
            ("currency=eur", "currency"),
            ("currency=null", "currency"),
        ] {
            let refused = read(Some(query)).unwrap_err();
            let told = format!("{refused:?}");
            assert!(told.contains(&format!("Some({name:?})")), "{query}: {told}");
        }
    }
}
