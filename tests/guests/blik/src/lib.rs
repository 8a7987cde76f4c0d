//! BLIK, for which the payer's Polish bank shows a six-digit code. It represents any method that the host does not
//! know.
use kassette_plugin::method::{Context, Description, Method, Refusal, Verdict};
use kassette_plugin::ranking::{self, Order, Ranking};

struct Blik;

impl Method for Blik {
    fn describe() -> Description {
        Description::new("blik", "BLIK", env!("CARGO_PKG_VERSION"), &["PLN"])
            .translated(&[("de", "BLIK", "Sechs Ziffern aus Ihrer Banking-App.")])
            .drawn(&["M4 12h16"])
    }

    fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
        ranking::require_currency(&context, &["PLN"])?;
        ranking::require_country(&context, &["PL"], "BLIK needs a Polish bank account")?;
        Ok(Ranking::start(&context, Order::Priority)?.verdicts())
    }
}

kassette_plugin::method::export!(Blik);
