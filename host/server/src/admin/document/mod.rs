//! The document of the operators' API. A call is a few lines in its group's list. Handlers parse strictly and
//! respond with plain JSON, so the tests compare both with this document.

mod call;
mod dev;
mod formats;
mod merchants;
mod modules;
mod payments;
mod resellers;
mod upkeep;
mod webhooks;

use axum::routing::{MethodRouter, get};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use utoipa::PartialSchema as _;
use utoipa::ToSchema as _;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{InfoBuilder, OpenApi, OpenApiBuilder, ServerBuilder};

use self::call::Call;
use super::AdminState;
use crate::web::document::{self, licence, tags};
use crate::web::error::ErrorBody;

const DESCRIPTION: &str = "\
What operators do: merchants and their policy, keys, webhooks, resellers, payments, modules and accounts. \
The listener answers under its own names alone (421 for any other `Host`). Beside this API it has \
`/livez`, `/readyz` and `/metrics` at its root.

Every response has `X-Request-Id`: the caller's own where it is 1-128 visible ASCII characters, else a \
random one. Bodies are JSON with each name once; fields and query parameters that are not named here are \
refused with 422. `null` on an optional field of a POST or PUT is its absence. A PATCH is a JSON merge \
patch (RFC 7396): what is absent stays, `null` resets. Lists are in pages, the newest first unless their \
call says otherwise; a `cursor` comes from `next_cursor` of the page before. Times are RFC 3339: answers \
use `Z`, queries may use any offset. \
Error texts are for people and may change.

Every change is written to the audit log with the operator whose token was sent, and with who that says \
to act (`actor`) and why (`reason`). Secrets are shown in the answer that makes them, this once; no other \
answer holds one.";

const KEY: &str = "\
An operator's token, `ko_…`. A role includes those before it: `viewer` reads all but the links by which \
a payment is paid, `operator` changes, `admin` does everything. Each operation names the role that it \
needs. A removed operator is refused at once.";

/// Descriptions of the groups of calls.
const TAGS: [(&str, &str); 7] = [
    (
        "Merchants",
        "Merchants, their policy, and what they are given.",
    ),
    ("Webhooks", "Where events go, and what became of them."),
    ("Resellers", "Resellers and what merchants grant them."),
    ("Payments", "Payments and what is decided about them."),
    ("Modules", "Modules, and the accounts that they speak to."),
    ("Upkeep", "Operators, the audit log, nodes, backups."),
    ("Development", "What `kassette dev` has beside."),
];

/// The document; `dev` is whether it contains the calls of `dev`.
pub(super) fn openapi(dev: bool) -> OpenApi {
    let info = InfoBuilder::new()
        .title("Kassette admin API")
        .version("1.0")
        .description(Some(DESCRIPTION))
        .license(Some(licence()))
        .build();
    let mut api = OpenApiBuilder::new().info(info).build();
    // The API is always below the listener's root.
    api.servers = Some(vec![ServerBuilder::new().url("/admin/v1").build()]);
    let mut groups: Vec<(&str, Vec<Call>)> = vec![
        ("Merchants", merchants::calls()),
        ("Webhooks", webhooks::calls()),
        ("Resellers", resellers::calls()),
        ("Payments", payments::calls()),
        ("Modules", modules::calls()),
        ("Upkeep", upkeep::calls()),
    ];
    if dev {
        groups.push(("Development", dev::calls()));
    }
    let mut known = tags(TAGS);
    known.truncate(groups.len());
    api.tags = Some(known);
    for (tag, calls) in groups {
        for call in calls {
            call.add_to(&mut api, tag);
        }
    }
    let components = api.components.get_or_insert_default();
    let error = (ErrorBody::name().into_owned(), ErrorBody::schema());
    components.schemas.extend([error]);
    let token = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(KEY))
        .build();
    components.add_security_scheme(call::TOKEN, SecurityScheme::Http(token));
    document::operations(&mut api.paths).for_each(document::name_headers);
    api
}

/// `GET /openapi.json`: needs no token, because it describes this version of the software and nothing of the
/// installation.
pub(super) fn route(dev: bool) -> MethodRouter<AdminState> {
    // Strings, numbers and maps with string keys always serialize.
    let text = Bytes::from(openapi(dev).to_json().unwrap_or_default());
    get(move || async move { ([(CONTENT_TYPE, "application/json")], text) })
}
