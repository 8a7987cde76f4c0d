//! The pages of the console. They only read; forms are in [`super`].
//!
//! | file | contains |
//! |---|---|
//! | `node` | values of the admin API with their formats, for templates |
//! | `words` | words and classes of states |
//! | `frame` | what templates ask of their context |
//! | `chart` | charts as inline SVG |
//! | `names` | names of merchants and addresses of endpoints that lists refer to by number |
//! | the others | one page each, with a template of the same name |

mod audit;
mod chart;
mod daybook;
mod deliveries;
mod frame;
mod merchant;
mod merchants;
mod module;
mod modules;
mod names;
mod node;
mod operators;
mod overview;
mod payment;
mod payments;
mod providers;
mod resellers;
mod status;
mod timeline;
mod words;
mod work;

use axum::Router;
use axum::routing::get;

use super::Console;

/// The addresses of the pages.
pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route("/console/", get(overview::show))
        .route("/console/payments", get(payments::show))
        .route("/console/payments/{id}", get(payment::show))
        .route("/console/work", get(work::show))
        .route("/console/daybook", get(daybook::show))
        .route("/console/daybook.csv", get(daybook::csv))
        .route("/console/modules", get(modules::show))
        .route("/console/modules/{slot}", get(module::show))
        .route("/console/modules/{slot}/diff", get(module::diff))
        .route("/console/providers", get(providers::show))
        .route("/console/merchants", get(merchants::show))
        .route("/console/merchants/{id}", get(merchant::show))
        .route("/console/deliveries", get(deliveries::show))
        .route("/console/resellers", get(resellers::show))
        .route("/console/operators", get(operators::show))
        .route("/console/audit", get(audit::show))
        .route("/console/status", get(status::show))
}
